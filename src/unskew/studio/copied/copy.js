// Runs first on every page of a published copy: there is no studio to ask, so answers were saved beside the page.
window.unskewCopy = (() => {
  const pages = window.unskewPages, saved = window.unskewSaved;

  // The same question, or the same without what follows "?": then the answer holds more than was asked for.
  window.fetch = async address => {
    const found = saved[address] ?? saved[String(address).split("?")[0]];
    const text = JSON.stringify(found ?? {error: "this is a published copy; open the folder with unskew studio for more"});
    return {ok: found !== undefined, status: found === undefined ? 404 : 200, text: async () => text};
  };
  window.EventSource = class { addEventListener() {} removeEventListener() {} close() {} };  // nothing goes on

  const loading = {};
  const load = address => loading[address] ||= new Promise((done, failed) => {
    const script = document.createElement("script");
    script.src = address;
    script.onload = () => done();
    script.onerror = () => failed(new Error(`${address} is not there`));
    document.head.append(script);
  });

  const lead = link => {
    const file = pages[link.getAttribute("href")];
    if (file) link.setAttribute("href", file);
  };
  const look = node => {
    if (node.nodeType !== 1) return;
    if (node.matches("a[href]")) lead(node);
    for (const link of node.querySelectorAll("a[href]")) lead(link);
  };
  new MutationObserver(changes => { for (const change of changes) change.addedNodes.forEach(look); })
    .observe(document.documentElement, {childList: true, subtree: true});
  return {load};
})();
