// Search on pages that are opened from the disk. Browsers start no Worker there, so its script runs in a hidden frame,
// which has the two verbs of a worker that it uses: postMessage and importScripts.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      this.frame.deliver = data => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        if (this.onmessage) this.onmessage(event);
      };
      const verbs = `
        postMessage = data => frameElement.deliver(data);
        importScripts = async (...urls) => {
          for (const url of urls)
            await new Promise((done, failed) => {
              const script = document.createElement("script");
              Object.assign(script, { src: url, onload: done, onerror: failed });
              document.body.append(script);
            });
        };`;
      inside.document.open();
      inside.document.write(`<body><script>${verbs}</` + `script><script src="${url}"></` + "script></body>");
      inside.document.close();
      this.ready = new Promise(done => (inside.onload = done));
    }
    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
