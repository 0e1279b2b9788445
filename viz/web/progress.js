// How far something is, as a bar with words, and a button to end it or to go on.

import { unpack } from "./bytes.js";
import { element, ending, firstIn, lastIn, newRoot, write } from "./elements.js";

/** @param {Given} given */
export default function ({ data, parentElement, setTriggerValue }) {
  /** @type {ProgressHeader & Behind} */
  const { share, text, button } = unpack(data);
  let root = parentElement.querySelector(".vitrine");
  if (!root) {
    root = newRoot(parentElement, "progress");
    const line = root.appendChild(element("div", "line"));
    line.append(element("div", "text"), element("button", "act"));
    lastIn(line).type = "button";
    lastIn(line).addEventListener("click", () => root.press());
    root.appendChild(element("div", "track")).setAttribute("role", "progressbar");
    lastIn(root).append(element("div", "done"));
    root.stop = () => {};
  }
  const [line, track] = root.children;
  const [words, act] = line.children;
  root.press = () => setTriggerValue("press", true);
  write(words, text);
  write(act, button);
  act.hidden = !button;
  track.hidden = share === null;
  track.setAttribute("aria-valuenow", Math.round(100 * (share ?? 0)));
  track.setAttribute("aria-label", text);
  firstIn(track).style.width = `${100 * (share ?? 0)}%`;
  // What has nothing to say takes no room, not even that between two others.
  const host = root.getRootNode().host?.closest(".stElementContainer");
  if (host) host.style.display = text ? "" : "none";
  return ending(root);
}
