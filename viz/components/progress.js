// How far something is, as a bar with words.

export default function ({ data, parentElement }) {
  const { share, text } = unpack(data);
  let root = parentElement.querySelector(".vitrine");
  if (!root) {
    root = parentElement.appendChild(element("div", "vitrine progress"));
    root.append(element("div", "text"), element("div", "track"));
    root.lastElementChild.setAttribute("role", "progressbar");
    root.lastElementChild.append(element("div", "done"));
    root.stop = () => {};
  }
  const [words, track] = root.children;
  write(words, text);
  track.hidden = share === null;
  track.setAttribute("aria-valuenow", Math.round(100 * share));
  track.setAttribute("aria-label", text);
  track.firstElementChild.style.width = `${100 * share}%`;
  return ending(root);
}
