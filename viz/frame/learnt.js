// All that the script draws is of what it has learnt: what it drew is as new as the views, unless more is to be learnt.
// looks: milliseconds after which it is to be run again where there is no channel, if at all.

export default function ({ data, parentElement }) {
  const root = parentElement.querySelector(".vitrine") ?? parentElement.appendChild(element("div", "vitrine"));
  root.stop = () => {};
  const { turn, looks } = unpack(data);
  bus.looks = looks;
  bus.channel?.lookByScript();
  if (!bus.due && turn >= (bus.turn ?? 0)) document.documentElement.toggleAttribute("data-unlearnt", false);
  return ending(root);
}
