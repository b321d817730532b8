// A browser starts no worker from a file:// page. There the site's search runs in a hidden frame instead, with the same
// messages; it needs no importScripts, which the theme calls for other languages than English.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc = `<script src="${new URL(url, location)}"></script>`;
      this.loaded = new Promise((resolve) => frame.addEventListener("load", () => resolve(frame.contentWindow)));
      this.loaded.then((inside) => {
        inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      });
      document.body.append(frame);
    }

    postMessage(data) {
      this.loaded.then((inside) => inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
