// What the playground keeps, in this browser and nowhere else: chats, presets, functions and the addresses of servers.
// Credentials are never kept. Every window of an account sees the same; a window that changes something tells the others.
(() => {
  "use strict";

  const play = window.sluicePlay ||= {};
  const mostChats = 500, mostWords = 20_000;

  const asked = (request) => new Promise((done, failed) => {
    request.onsuccess = () => done(request.result);
    request.onerror = () => failed(request.error);
  });

  // openDatabase opens the database of an account. "heads" has what the list of chats shows and is searched by, "chats"
  // all of each chat, "things" the rest.
  function openDatabase(name) {
    const request = indexedDB.open(name, 1);
    request.onupgradeneeded = () => {
      for (const store of ["heads", "chats"]) request.result.createObjectStore(store, { keyPath: "id" });
      request.result.createObjectStore("things");
    };
    return asked(request);
  }

  // headOf returns what is listed of a chat, and what it is found by.
  function headOf(chat) {
    let words = chat.title + "\n";
    for (const lane of chat.lanes) {
      for (const m of lane.messages) {
        if (words.length > mostWords) break;
        words += play.partsOf(m.content).map((p) => p.text || play.nameOf(p)).join("\n").slice(0, 4000) + "\n";
      }
    }
    return { id: chat.id, title: chat.title, at: chat.at, pinned: !!chat.pinned, words: words.slice(0, mostWords).toLowerCase() };
  }

  // Chats are the chats of an account.
  class Chats {
    constructor(name, db) {
      this.name = name;
      this.db = db;
      this.channel = new BroadcastChannel(name);
    }
    // changed calls back when another window has changed something.
    changed(call) { this.channel.onmessage = call; }
    // run runs work in one transaction. A transaction ends by itself when nothing is asked of it.
    async run(mode, work) {
      const tx = this.db.transaction(["heads", "chats", "things"], mode);
      const done = new Promise((ok, failed) => { tx.oncomplete = ok; tx.onabort = tx.onerror = () => failed(tx.error); });
      const result = await Promise.all([work((name) => tx.objectStore(name)), done]);
      if (mode === "readwrite") this.channel.postMessage("");
      return result[0];
    }
    // list returns the heads of all chats, the pinned and then the newest first.
    async list() {
      const all = await this.run("readonly", (of) => asked(of("heads").getAll()));
      return all.sort((a, b) => b.pinned - a.pinned || b.at - a.at);
    }
    load(id) { return this.run("readonly", (of) => asked(of("chats").get(id))); }
    // save keeps a chat, and reports whether it has: one that another window has deleted does not come back because this
    // one still shows it. If there is no room, the oldest chats go.
    async save(chat) {
      for (;;) {
        try {
          return await this.run("readwrite", async (of) => {
            const before = await asked(of("heads").get(chat.id));
            if (chat.kept && !before) return false;
            chat.kept = true;
            if (before) { chat.title = chat.title || before.title; chat.pinned = before.pinned; }
            if (before?.named) chat.title = before.title;
            of("heads").put({ ...headOf(chat), named: before?.named });
            of("chats").put(chat);
            if (await asked(of("heads").count()) > mostChats) await this.dropOldest(of, chat.id);
            return true;
          });
        } catch (error) {
          if (error?.name !== "QuotaExceededError" || !await this.run("readwrite", (of) => this.dropOldest(of, chat.id))) throw error;
        }
      }
    }
    // dropOldest deletes the oldest chat that is not pinned, and reports whether there was one.
    async dropOldest(of, but) {
      const oldest = (await asked(of("heads").getAll())).filter((h) => !h.pinned && h.id !== but).sort((a, b) => a.at - b.at)[0];
      if (oldest) for (const store of ["heads", "chats"]) of(store).delete(oldest.id);
      return !!oldest;
    }
    // change changes what is listed of a chat: its title, or whether it is pinned.
    change(id, to) {
      return this.run("readwrite", async (of) => {
        for (const store of ["heads", "chats"]) {
          const it = await asked(of(store).get(id));
          if (it) of(store).put({ ...it, ...to });
        }
      });
    }
    // remove deletes chats and returns them, so that they can be put back.
    remove(ids) {
      return this.run("readwrite", async (of) => {
        const gone = [];
        for (const id of ids) {
          const chat = await asked(of("chats").get(id)), head = await asked(of("heads").get(id));
          if (chat) gone.push({ chat, head });
          for (const store of ["heads", "chats"]) of(store).delete(id);
        }
        return gone;
      });
    }
    restore(gone) {
      return this.run("readwrite", async (of) => { for (const { chat, head } of gone) { of("chats").put(chat); of("heads").put(head); } });
    }
    // thing returns what is kept under a name, and keep keeps something.
    async thing(name, otherwise) { return await this.run("readonly", (of) => asked(of("things").get(name))) ?? otherwise; }
    keep(name, value) { return this.run("readwrite", async (of) => { of("things").put(value, name); }); }

    // adopt takes over what earlier versions of this page have kept in local storage.
    async adopt() {
      const text = localStorage.getItem(this.name);
      if (!text) return;
      try {
        const all = JSON.parse(text);
        await this.run("readwrite", async (of) => {
          for (const old of all.chats || []) {
            const lanes = old.lanes.slice(0, old.compare ? 2 : 1).map((l, i) => ({ model: old.settings?.[i ? "model-b" : "model"] || "", messages: l.messages }));
            const chat = { id: old.id, title: old.title, lanes, settings: old.settings || {}, draft: old.draft || "", at: old.at || 0, kept: true };
            of("heads").put(headOf(chat));
            of("chats").put(chat);
          }
          if (all.presets?.length) of("things").put(all.presets, "presets");
        });
      } catch { /* something else has written there */ }
      localStorage.removeItem(this.name);
    }
  }

  // Fleeting stands in for the database where the browser has none, such as in some private windows: what it has lasts as
  // long as the page.
  class Fleeting extends Chats {
    constructor(name) {
      super(name, null);
      this.maps = { heads: new Map(), chats: new Map(), things: new Map() };
      this.fleeting = true;
    }
    async run(mode, work) {
      const request = (result) => { const r = { result }; queueMicrotask(() => r.onsuccess?.()); return r; };
      return work((name) => {
        const map = this.maps[name];
        return {
          get: (id) => request(structuredClone(map.get(id))), getAll: () => request([...map.values()]), count: () => request(map.size),
          put: (value, id = value.id) => { map.set(id, structuredClone(value)); }, delete: (id) => { map.delete(id); },
        };
      });
    }
  }

  // openChats opens what is kept for an account.
  play.openChats = async (account) => {
    const name = "sluice.play." + account;
    try {
      const chats = new Chats(name, await openDatabase(name));
      await chats.adopt();
      return chats;
    } catch { return new Fleeting(name); }
  };
})();
