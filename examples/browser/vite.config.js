// A relative base: the page works in any folder of any static server. Small assets stay files: the page's policy allows
// no programs in data URLs.
export default {
  base: "./",
  build: { target: "es2023", assetsInlineLimit: 0, chunkSizeWarningLimit: 1000 },
};
