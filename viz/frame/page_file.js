// The whole page as one HTML file that opens without a network: the document as it stands, pictures instead of canvases,
// shadow trees as declarative ones, the styles that apply. Nothing in it runs or asks another machine.

const LEFT_OUT = new Set(["SCRIPT", "NOSCRIPT", "LINK", "META", "STYLE", "BASE", "OBJECT", "EMBED"]);
const RULES = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; frame-src data:; script-src 'unsafe-inline'";

// All rules of style sheets as text; those of sheets that may not be read are another machine's, and left out.
function rulesOf(sheets) {
  const texts = [];
  for (const sheet of sheets) {
    try {
      const whole = (match, address) => (address.startsWith("data:") ? match : `url("${new URL(address, sheet.href ?? document.baseURI)}")`);
      for (const { cssText } of sheet.cssRules) texts.push(cssText.replace(/url\(["']?([^"')]+)["']?\)/g, whole));
    } catch (error) {
      console.warn(`a style sheet was left out: ${error.message}`);
    }
  }
  return texts.join("\n");
}

function styleElement(text) {
  return element("style", "", text.replaceAll("</", "<\\/"));
}

function picture(canvas) {
  const made = element("img");
  for (const { name, value } of canvas.attributes) made.setAttribute(name, value);
  const { width, height } = canvas.getBoundingClientRect();
  if (canvas.width && canvas.height) made.src = canvas.toDataURL();
  made.alt = canvas.getAttribute("aria-label") ?? "";
  made.style.width = `${width}px`;
  made.style.height = `${height}px`;
  return made;
}

function frozen(node) {
  if (node.nodeType === Node.TEXT_NODE) return node.cloneNode();
  if (node.nodeType !== Node.ELEMENT_NODE || LEFT_OUT.has(node.tagName)) return null;
  if (node.tagName === "CANVAS") return picture(node);
  const made = node.cloneNode();
  for (const name of node.getAttributeNames()) if (name.startsWith("on")) made.removeAttribute(name);
  if (node.tagName === "INPUT") made.setAttribute("value", node.value);
  if (node.tagName === "A") made.removeAttribute("href");
  if (node.tagName === "IMG" && !node.src.startsWith("data:")) made.removeAttribute("src");
  if (node.shadowRoot) {
    const template = made.appendChild(element("template"));
    template.setAttribute("shadowrootmode", "open");
    const { styleSheets, adoptedStyleSheets, childNodes } = node.shadowRoot;
    template.content.append(styleElement(rulesOf([...styleSheets, ...adoptedStyleSheets])), ...frozenAll(childNodes));
  }
  made.append(...frozenAll(node.childNodes));
  return made;
}

const frozenAll = (nodes) => [...nodes].map(frozen).filter(Boolean);

async function asData(url) {
  const blob = await (await fetch(url)).blob();
  return new Promise((done) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result);
    reader.readAsDataURL(blob);
  });
}

// The faces that are in use are put into the file, the others are left out.
async function withFonts(text) {
  const used = new Set([...document.fonts].filter(({ status }) => status === "loaded").map(({ family }) => family.replace(/["']/g, "")));
  const faces = [...text.matchAll(/@font-face \{[^}]*\}/g)].map(([face]) => face);
  for (const face of faces) {
    const family = face.match(/font-family: ["']?([^;"']+)/)?.[1];
    const address = face.match(/url\(["']?([^"')]+)["']?\)/)?.[1];
    let kept = "";
    if (used.has(family) && address && new URL(address).origin === location.origin) {
      const data = await asData(address);
      kept = face.replace(/src: [^;]*;/, `src: url("${data}");`);
    }
    text = text.replace(face, () => kept);
  }
  return text;
}

async function wholePage(words) {
  const page = document.implementation.createHTMLDocument(document.title);
  page.documentElement.lang = document.documentElement.lang;
  const policy = page.createElement("meta");
  policy.httpEquiv = "Content-Security-Policy";
  policy.content = RULES;
  const text = await withFonts(rulesOf([...document.styleSheets, ...document.adoptedStyleSheets]));
  const characters = page.createElement("meta");
  characters.setAttribute("charset", "utf-8");
  page.head.prepend(characters, policy);
  const width = page.head.appendChild(page.createElement("meta"));
  width.name = "viewport";
  width.content = "width=device-width, initial-scale=1";
  page.head.append(styleElement(text));
  page.documentElement.setAttribute("style", document.documentElement.getAttribute("style") ?? "");
  page.body.className = document.body.className;
  page.body.setAttribute("style", document.body.getAttribute("style") ?? "");
  const note = element("div", "", `${words.saved} · ${new Date().toLocaleString(words.language)} · ${location.href}`);
  note.style.cssText = "position: fixed; bottom: 0; right: 0; z-index: 999; padding: 4px 12px; font: 12px sans-serif; background: #ffe8a3; color: #222; overflow-wrap: anywhere";
  page.body.append(note, ...frozenAll(document.body.childNodes));
  return new Blob(["<!DOCTYPE html>\n", page.documentElement.outerHTML], { type: "text/html" });
}

export default function ({ data, parentElement }) {
  const root = parentElement.querySelector(".vitrine") ?? parentElement.appendChild(element("div", "vitrine page_file"));
  const button = root.querySelector("button") ?? root.appendChild(element("button", "save"));
  button.type = "button";
  button.title = data.explanation;
  write(button, data.save);
  button.onclick = async () => {
    const link = element("a");
    link.href = URL.createObjectURL(await wholePage(data));
    link.download = `vitrine-${location.pathname.replaceAll("/", "") || "attention"}.html`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  };
}
