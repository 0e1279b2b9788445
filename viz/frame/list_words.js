// Words of Streamlit and Plotly in lists, and names of their buttons, which they have in English alone: in the language of the page.

const WITH_WORDS = "input[placeholder], [role='listbox'] span:only-child, button[aria-label], .modebar-btn, [data-testid='stSkipToContent']";
const NAMES = ["placeholder", "aria-label", "title", "data-title"];

/** @type {Map<string, string>} */
let wordsOf = new Map();
let due = 0;

/** @param {Element} each @param {string} name */
function sayAttribute(each, name) {
  const own = wordsOf.get(each.getAttribute(name) ?? "");
  if (own) each.setAttribute(name, own);
}

function say() {
  due = 0;
  for (const each of document.querySelectorAll(WITH_WORDS)) {
    for (const name of NAMES) sayAttribute(each, name);
    const [only] = each.childNodes;
    if (each.childNodes.length === 1 && only instanceof Text && wordsOf.has(only.data)) only.data = String(wordsOf.get(only.data)); // React's own node
  }
}

const changes = new MutationObserver(() => (due ||= requestAnimationFrame(say)));

// words: by those of Streamlit; none in English, and nothing is watched. What was said in another language is theirs again.
/** @param {Record<string, string>} words */
export function translateLists(words) {
  const next = new Map(Object.entries(words));
  if (next.size === wordsOf.size && [...next].every(([own, said]) => wordsOf.get(own) === said)) return;
  changes.disconnect();
  wordsOf = new Map([...wordsOf].map(([own, said]) => [said, own]));
  say();
  wordsOf = next;
  if (!wordsOf.size) return;
  changes.observe(document.body, { childList: true, subtree: true });
  say();
}
