// All that the script draws is of what it has learnt: what it drew is as new as the views, unless more is to be learnt.

export default function ({ data, parentElement }) {
  const root = parentElement.querySelector(".vitrine") ?? parentElement.appendChild(element("div", "vitrine"));
  root.stop = () => {};
  const { turn } = unpack(data);
  if (!bus.due && turn >= (bus.turn ?? 0)) document.documentElement.toggleAttribute("data-unlearnt", false);
  return ending(root);
}
