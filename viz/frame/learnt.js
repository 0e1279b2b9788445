// All that the script draws is of what it has learnt: what it drew is as new as the views, unless more is to be learnt.
// followed: keys of the views that show the texts. looks: milliseconds after which it is to be run again where there is no
// channel, if at all. saving: the number of the page file that this run was asked for, see page_file.js; choices: what a
// click shows in it. python: lines that give the page's figures; file: that was asked for.

import { unpack } from "../web/bytes.js";
import { ending, newRoot } from "../web/elements.js";
import { bus } from "../web/bus.js";

/** @param {Given} given */
export default function ({ data, parentElement }) {
  const root = parentElement.querySelector(".vitrine") ?? newRoot(parentElement, "");
  root.stop = () => {};
  /** @type {LearntHeader & Behind} */
  const { turn, looks, followed, saving, choices, left_out, python, file, arrays } = unpack(data);
  bus.python = python;
  bus.looks = looks;
  bus.followed = new Set(followed);
  bus.channel?.lookByScript();
  if (saving && bus.preparing?.number === saving) {
    bus.preparing?.done({ file, leftOut: left_out, choices: choices.map((/** @type {string[]} */ [click, key], /** @type {number} */ index) => ({ click, key, bytes: arrays[index] })) });
  }
  document.documentElement.toggleAttribute("data-turned", false);
  if (!bus.due && turn >= (bus.turn ?? 0)) document.documentElement.toggleAttribute("data-unlearnt", false);
  return ending(root);
}
