import { setText } from './dom.js';

const THEMES = /** @type {const} */ (['system', 'light', 'dark']);
const KEY = 'wg-keepalive-theme';

/**
 * A button that goes round the themes; the choice is kept in this browser.
 * @param {HTMLElement} button
 * @param {() => void} onChange
 */
export function initTheme(button, onChange) {
  let theme = THEMES.find((one) => one === localStorage.getItem(KEY)) ?? 'system';
  const show = () => {
    document.documentElement.dataset.theme = theme;
    setText(button, `Theme: ${theme}`);
    onChange();
  };
  button.addEventListener('click', () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] ?? 'system';
    localStorage.setItem(KEY, theme);
    show();
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', show);
  show();
}
