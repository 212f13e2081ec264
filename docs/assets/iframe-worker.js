// A page that is opened as a file may not start a worker, so the worker of the search runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.loaded = new Promise((done) => {
        const script = this.inside.document.createElement("script");
        script.src = url;
        script.onload = done;
        this.inside.document.body.append(script);
      });
    }

    postMessage(data) {
      this.loaded.then(() => this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data })));
    }
  };
}
