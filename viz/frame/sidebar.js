// The sidebar, opened and closed by Streamlit's own buttons. In a narrow window it lies over the page.

const OVERLAY = "(max-width: 768px)"; // as Streamlit has it

export const SIDEBAR = '[data-testid="stSidebar"]';

/** @param {string} selector */
const press = (selector) => /** @type {HTMLElement | null} */ (document.querySelector(selector))?.click();

export function openSidebar() {
  if (document.querySelector(`${SIDEBAR}[data-collapsed="true"]`)) press('[data-testid="stExpandSidebarButton"]');
}

// Where it would lie over what is shown.
export function uncoverPage() {
  if (matchMedia(OVERLAY).matches) press(`${SIDEBAR}:not([data-collapsed="true"]) [data-testid="stSidebarCollapseButton"] button`);
}
