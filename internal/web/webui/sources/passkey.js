// Passkeys: a form with data-passkey asks the server for a challenge, has the browser make or use a passkey, and is then
// sent with what the browser said. A form with an empty proof_key field does the same in place of a code.
(() => {
  "use strict";

  const decode = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
  const encode = (buffer) => buffer ? btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "") : "";
  const bytes = (text) => new TextEncoder().encode(text);

  const able = window.PublicKeyCredential;
  for (const part of document.querySelectorAll("[data-passkeys]")) part.hidden = (part.dataset.passkeys === "no") === Boolean(able);

  // ask sends a form to the server and returns the challenge. It returns nothing if the browser leaves the page.
  async function ask(path, body) {
    const response = await fetch(path, { method: "POST", body: new URLSearchParams(body) });
    if (response.redirected) { location.assign(response.url); return undefined; }
    const reply = await response.json();
    if (!response.ok) throw Object.assign(new Error(reply.problem), { told: true, field: reply.field });
    return reply;
  }

  // send returns a credential in the form that the server reads, with the parts of its response that are named.
  function send(made, ...parts) {
    const response = {};
    for (const part of parts) response[part] = encode(made.response[part]);
    return JSON.stringify({ id: encode(made.rawId), rawId: encode(made.rawId), type: made.type, response });
  }

  async function use(a) {
    const made = await navigator.credentials.get({ publicKey: {
      challenge: bytes(a.challenge), rpId: a.site, userVerification: a.verify ? "required" : "preferred",
      allowCredentials: a.known.map((id) => ({ type: "public-key", id: decode(id) })),
    } });
    return send(made, "clientDataJSON", "authenticatorData", "signature", "userHandle");
  }

  async function create(a, service) {
    const made = await navigator.credentials.create({ publicKey: {
      challenge: bytes(a.challenge), rp: { id: a.site, name: service }, user: { id: bytes(a.user), name: a.email, displayName: a.email },
      pubKeyCredParams: [-7, -8, -257].map((alg) => ({ type: "public-key", alg })), attestation: "none",
      authenticatorSelection: { residentKey: "preferred", userVerification: "preferred" },
      excludeCredentials: a.known.map((id) => ({ type: "public-key", id: decode(id) })),
    } });
    return send(made, "clientDataJSON", "attestationObject");
  }

  // tell shows what went wrong, beside the button.
  function tell(form, error) {
    let text = "The passkey could not be used. Try again.";
    if (error.told) text = error.message;
    else if (error.name === "InvalidStateError") text = "This device already has a passkey for your account.";
    else if (error.name === "SecurityError") text = "Passkeys do not work at this address of the service.";
    else if (error.name === "NotAllowedError") text = "No passkey was chosen. Try again when you are ready.";
    let line = form.querySelector("[data-told]");
    if (!line) {
      line = document.createElement("p");
      line.className = "wrong";
      line.dataset.told = "";
      line.setAttribute("role", "alert");
      form.append(line);
    }
    line.textContent = text;
    const field = { current: "current", code: "proof", name: "name" }[error.field];
    const input = field && form.elements[field];
    if (input) { input.focus(); input.select(); }
  }

  const busy = new WeakSet(), ready = new WeakSet();

  document.addEventListener("submit", async (event) => {
    const form = event.target, kind = form.dataset.passkey, proof = form.elements.proof_key;
    const proves = proof && able && !form.elements.proof.value && !proof.value;
    if (!kind && !proves || ready.has(form) || form.dataset.confirm && !form.dataset.confirmed) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    if (busy.has(form)) return;
    busy.add(form);
    try {
      if (proves) {
        const a = await ask(proof.dataset.ask, {});
        if (!a) return;
        proof.value = await use(a);
      }
      if (kind) {
        const a = await ask(form.dataset.ask, new FormData(form));
        if (!a) return;
        form.elements.passkey.value = await (kind === "create" ? create(a, form.dataset.service) : use(a));
      }
      ready.add(form);
      form.requestSubmit(event.submitter);
    } catch (error) {
      forget(form);
      tell(form, error);
    } finally {
      busy.delete(form);
    }
  }, true);

  // forget drops what was signed: it is good once.
  function forget(form) {
    ready.delete(form);
    for (const name of ["passkey", "proof_key"]) if (form.elements[name]) form.elements[name].value = "";
  }

  // A page that Back brings from memory has the fields of the form that was sent.
  addEventListener("pageshow", () => { for (const form of document.forms) forget(form); });
})();
