// The line of a class session: for who teaches, code, answers and its end; for who follows, the way back. Whoever presses or
// types something on the page while he follows looks around by himself from then on.

import { unpack } from "../web/bytes.js";
import { element, ending, newRoot, write } from "../web/elements.js";
import { bus } from "../web/bus.js";
import { followScreen, teachScreen } from "./class_screen.js";
import { qrPicture } from "../web/link.js";
import { newPopover } from "../web/popover.js";

const PRESSED = "button, a, input, select, textarea, label, [role]"; // controls of Streamlit's
const PLACES = '.stMain, [data-testid="stSidebar"]';
// What changes nothing that the teacher shows: this line, a guess, the language, the menu, explanations, what only opens.
const ASIDE = '.st-key-class_line, .st-key-lesson_question, .st-key-lesson_hint, .st-key-lesson_again, .st-key-heading, [class*="explanation"], summary, [data-testid="stSidebarHeader"]';

/** @param {string} name @param {() => void} act */
function button(name, act) {
  const made = element("button", `do ${name}`);
  made.type = "button";
  made.addEventListener("click", act);
  return made;
}

/** @param {HTMLElement} parentElement */
function buildStrip(parentElement) {
  const root = newRoot(parentElement, "class_strip");
  root.line = root.appendChild(element("div", "line"));
  root.problem = root.appendChild(element("div", "problem"));
  root.problem.setAttribute("role", "status");
  root.letGo = (/** @type {Event} */ event) => letGo(root, event);
  document.addEventListener("click", root.letGo, true);
  document.addEventListener("change", root.letGo, true);
  root.stop = () => {
    root.noScreen?.();
    document.removeEventListener("click", root.letGo, true);
    document.removeEventListener("change", root.letGo, true);
  };
  return root;
}

/** @param {Root} root @param {Event} event */
function letGo(root, event) {
  if (root.seat !== "follower" || !event.isTrusted) return;
  const target = /** @type {Element} */ (event.target); // of a component: its element on the page
  if (!target.closest?.(PLACES) || target.closest(ASIDE) || !target.closest(PRESSED)) return;
  root.send("follows", false);
}

/** @param {Root} root */
function buildTeacher(root) {
  root.heading = element("span", "title");
  root.count = element("span", "count");
  root.count.setAttribute("role", "status");
  const [code, answers, end] = ["code", "answers", "end"].map((name) => newPopover(`do ${name}`));
  root.code = { ...code, hint: element("p", "note"), link: element("a", "link"), large: element("div", "large"), local: element("p", "problem") };
  root.code.picture = element("div", "qr");
  code.panel.classList.add("joining");
  const words = element("div", "joining-words");
  words.append(root.code.hint, root.code.link, root.code.large, root.code.local);
  code.panel.append(root.code.picture, words);
  const names = element("label", "wanted");
  const wanted = names.appendChild(element("input"));
  wanted.type = "checkbox";
  wanted.addEventListener("change", () => root.send("names", wanted.checked));
  root.answers = { ...answers, wanted, label: names.appendChild(element("span")), about: element("p", "note muted"), list: element("ul"), csv: button("csv", () => saveCsv(root)) };
  answers.panel.append(names, root.answers.about, root.answers.list, root.answers.csv);
  const finish = () => {
    end.panel.hidePopover();
    root.send("end", performance.now());
  };
  root.end = {
    ...end,
    about: element("p", "note"),
    csv: button("csv", () => {
      saveCsv(root);
      finish();
    }),
    now: button("now", finish),
  };
  end.panel.append(root.end.about, root.end.csv, root.end.now);
  root.line.append(root.heading, root.count, code.opener, code.panel, answers.opener, answers.panel, end.opener, end.panel);
}

/** @param {Root} root */
function buildFollower(root) {
  root.count = element("span", "count");
  root.count.setAttribute("role", "status");
  root.back = button("back", () => root.send("follows", true));
  root.name = element("input", "name");
  Object.assign(root.name, { type: "text", maxLength: 40, autocomplete: "off" });
  root.name.addEventListener("change", () => root.send("name", root.name.value));
  root.leave = button("leave", () => root.send("end", performance.now()));
  root.line.append(root.count, root.back, root.name, root.leave);
}

/** @param {Root} root */
function saveCsv(root) {
  const link = element("a");
  link.href = URL.createObjectURL(new Blob(["\ufeff", root.csv], { type: "text/csv" }));
  link.download = `class-${root.header.code}.csv`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** @param {Root} root @param {ClassStripHeader} header */
function showTeacher(root, header) {
  const { words, code, link, local, qr, names, csv } = header;
  write(root.heading, words.title);
  write(root.code.opener, words.code);
  write(root.code.hint, words.enter);
  write(root.code.large, code);
  write(root.code.link, link);
  root.code.link.href = link;
  write(root.code.local, local);
  root.code.picture.hidden = !qr;
  if (qr && root.qr !== qr.path) root.code.picture.replaceChildren(qrPicture(qr, link));
  root.qr = qr?.path;
  write(root.answers.opener, words.answers);
  write(root.answers.label, words.names);
  write(root.answers.about, words.about);
  root.answers.wanted.checked = header.names_wanted;
  const lines = header.names_wanted ? (names.length ? names : [words.nobody]) : [];
  if (JSON.stringify(lines) !== root.answers.lines) root.answers.list.replaceChildren(...lines.map((each) => element("li", "", each)));
  root.answers.lines = JSON.stringify(lines);
  root.answers.list.hidden = !lines.length;
  write(root.answers.csv, csv ? words.csv : words.none);
  root.answers.csv.disabled = !csv;
  write(root.end.opener, words.end);
  write(root.end.about, words.ending);
  write(root.end.csv, words.end_csv);
  root.end.csv.hidden = !csv;
  write(root.end.now, words.end_now);
}

/** @param {Root} root @param {ClassStripHeader} header */
function showFollower(root, { role, words, names_wanted, name }) {
  write(root.back, words.back);
  root.back.hidden = role === "follower";
  root.name.hidden = !names_wanted;
  root.name.placeholder = words.name;
  root.name.setAttribute("aria-label", words.name);
  if (root.name !== root.getRootNode().activeElement) root.name.value = name;
  write(root.leave, words.leave);
}

// What is presented goes from who teaches to who follows.
/** @param {Root} root */
function showScreens(root) {
  root.noScreen?.();
  root.screens = root.seat;
  root.noScreen =
    root.seat === "teacher"
      ? teachScreen((value) => Boolean(bus.channel?.send({ answer: "class_session", name: "screen", value })))
      : root.seat === "follower"
        ? followScreen(() => root.seat === "follower", () => root.send("follows", false))
        : undefined;
}

/** @param {Given} given */
export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".vitrine") ?? buildStrip(parentElement);
  /** @type {ClassStripHeader & Behind} */
  const header = unpack(data);
  const teaches = header.role === "teacher";
  if (root.teaches !== teaches) {
    root.line.replaceChildren();
    (teaches ? buildTeacher : buildFollower)(root);
  }
  Object.assign(root, { header, teaches, seat: header.role, csv: header.csv });
  root.send = (/** @type {string} */ name, /** @type {unknown} */ value) => {
    if (name === "follows") root.seat = value ? "follower" : "alone";
    if (!bus.channel?.send({ answer: "class_session", name, value })) setTriggerValue(name, value);
  };
  if (root.screens !== header.role) showScreens(root);
  write(root.count, header.sentence);
  write(root.problem, header.problem);
  (teaches ? showTeacher : showFollower)(root, header);
  root.line.classList.toggle("alone", header.role === "alone");
  return ending(root);
}
