/** The module that the engine's thread begins with: beside this one, in the checkout as in a bundle. */
export function engineEntry(): URL {
  const [extension] = /\.\w+$/.exec(import.meta.url) ?? ['.js'];
  return new URL(`./engine-main${extension}`, import.meta.url);
}
