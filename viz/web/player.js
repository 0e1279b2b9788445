// A player of a film: buttons, a choice of speeds and the clock. It asks the film where it stands, and tells it where to go.

import { element, write } from "./elements.js";

// buttons: each with its name, its sign and what it does; "play" plays. speeds: frames a second, and how they are written.
/**
 * @param {HTMLElement} parent @param {[string, string, (() => void)?][]} buttons @param {[number, string][]} speeds
 * @param {number} usual @param {PlayedFilm} film @returns {Player}
 */
export function buildPlayer(parent, buttons, speeds, usual, film) {
  const controls = parent.appendChild(element("div", "controls"));
  /** @type {Record<string, HTMLButtonElement>} */
  const named = {};
  for (const [name, sign, act] of buttons) {
    const button = (named[name] = controls.appendChild(element("button", `step ${name}`, sign)));
    button.type = "button";
    button.addEventListener("click", () => (act ? act() : player.play(!player.playing)));
  }
  const speed = controls.appendChild(element("select"));
  speed.append(...speeds.map(([value, text]) => new Option(text, String(value), value === usual, value === usual)));
  /** @type {Player} */
  const player = {
    controls,
    speed,
    buttons: named,
    // As many frames as the time that has gone by asks for, each drawing once a frame of the screen.
    play(on) {
      cancelAnimationFrame(player.playing ?? 0);
      player.playing = undefined;
      if (on) {
        const [from, began] = [film.start(), performance.now()];
        film.go(from);
        /** @param {number} now */
        const next = (now) => {
          const wanted = Math.min(film.last(), from + Math.floor((Math.max(0, now - began) * Number(speed.value)) / 1000));
          if (wanted !== film.at()) film.go(wanted);
          player.playing = wanted < film.last() ? requestAnimationFrame(next) : undefined;
          if (!player.playing) player.name();
        };
        player.playing = requestAnimationFrame(next);
      }
      player.name();
    },
    // The user goes to a frame: the film stands still there.
    seek(frame) {
      player.play(false);
      film.go(Math.max(0, Math.min(film.last(), frame)));
    },
    // Whether a key has led somewhere.
    steer(event) {
      const { tagName } = /** @type {Element} */ (event.target);
      if (tagName === "SELECT" || event.ctrlKey || event.metaKey || event.altKey) return false;
      const [at, last] = [film.at(), film.last()];
      const leap = Math.max(1, Math.round(last / 10));
      /** @type {Record<string, number>} */
      const keys = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last, ...(film.leaps && { PageDown: at - leap, PageUp: at + leap }) };
      if (event.key in keys) player.seek(keys[event.key]);
      else if (event.key === " " && tagName !== "BUTTON") player.play(!player.playing);
      else return false;
      event.preventDefault();
      return true;
    },
    name(words = player.words) {
      player.words = words;
      if (!words) return;
      const text = player.playing ? words.pause : words.play;
      write(named.play, player.playing ? "❚❚" : "▶");
      named.play.setAttribute("aria-label", text);
      named.play.title = `${text} · ${words.keys}`;
    },
  };
  speed.addEventListener("change", () => player.playing && player.play(true));
  return player;
}
