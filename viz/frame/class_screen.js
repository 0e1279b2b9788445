// What a teacher's browser alone knows of what it shows, for those who follow it: the figure that is presented, the pointer, the step at
// which the film of a training stands. The newest counts.

import { bus } from "../web/bus.js";
import { goToFrame, nearestFrame } from "../web/film_store.js";
import { follow, presentation } from "./present.js";

const PACE = 80; // milliseconds between messages

/** @param {(name: string) => void} act @param {string[]} names */
function listen(act, names) {
  const listeners = names.map((name) => /** @type {const} */ ([name, (/** @type {any} */ event) => act(event)]));
  for (const [name, listener] of listeners) bus.addEventListener(name, listener);
  return () => listeners.forEach(([name, listener]) => bus.removeEventListener(name, listener));
}

// Tell those who follow what this window presents. send: whether it was. Gives what ends it.
/** @param {(screen: TeacherScreen) => boolean} send */
export function teachScreen(send) {
  let [timer, before] = [0, ""];
  const tell = () => {
    const now = { ...presentation(), step: bus.at ?? null };
    const text = JSON.stringify(now);
    timer = text === before ? 0 : Number(setTimeout(tell, PACE));
    if (timer && send(now)) before = text;
  };
  const silent = listen(() => timer || tell(), ["presented", "frame"]);
  tell();
  return () => {
    clearTimeout(timer);
    silent();
  };
}

// Present what the teacher does, while this window follows. letGo: whoever does something himself looks around alone. Gives what ends it.
/** @param {() => boolean} follows @param {() => void} letGo */
export function followScreen(follows, letGo) {
  const show = () => {
    const screen = follows() ? bus.screen : null;
    follow(screen ?? null);
    if (screen && bus.film?.steps.length) goToFrame(screen.step === null ? bus.film.steps.length - 1 : nearestFrame(screen.step), true);
  };
  const silent = [
    listen(show, ["screen", "film"]),
    listen(() => follows() && letGo(), ["alone"]),
    listen((/** @type {any} */ { detail }) => !detail.led && follows() && letGo(), ["frame"]),
  ];
  show();
  return () => {
    silent.forEach((end) => end());
    follow(null);
  };
}
