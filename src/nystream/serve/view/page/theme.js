/** Light or dark: as the system has it, until the visitor chooses. */

const KEY = "nystream-theme";
const dark = matchMedia("(prefers-color-scheme: dark)");

/**
 * @param {HTMLButtonElement} button
 * @param {() => void} onChange
 */
export function setUpTheme(button, onChange) {
  const apply = () => {
    const theme = stored() ?? (dark.matches ? "dark" : "light");
    document.documentElement.dataset.theme = theme;
    button.setAttribute("aria-pressed", String(theme === "dark"));
    onChange();
  };
  button.addEventListener("click", () => {
    store(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
    apply();
  });
  dark.addEventListener("change", apply);
  apply();
}

let chosen = null; // for browsers that refuse to store anything

function stored() {
  try {
    return localStorage.getItem(KEY) ?? chosen;
  } catch {
    return chosen;
  }
}

function store(theme) {
  chosen = theme;
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // It lasts until the page is closed.
  }
}
