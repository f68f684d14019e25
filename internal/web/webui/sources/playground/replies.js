// Replies: each is asked for, collected as it arrives, and kept so that the page can go on with it after a reload.
(() => {
  "use strict";

  const play = window.sluicePlay ||= {};

  // Reply is one reply under way. Its message is part of a chat from the beginning; host.painted is called when there is
  // more to show, at most once a frame, and host.save from time to time.
  play.Reply = class {
    constructor(chat, lane, message, host) {
      Object.assign(this, { chat, lane, message, host });
      this.began = performance.now();
      this.stopping = new AbortController();
      this.savedAt = this.began;
    }
    // touch notes that something has arrived.
    touch() {
      this.first ??= performance.now() - this.began;
      this.frame ||= requestAnimationFrame(() => { this.frame = 0; this.host.painted(this); });
      if (performance.now() - this.savedAt > 2000) { this.savedAt = performance.now(); this.host.save(this.chat); }
    }
    // stop ends the call, and not only its connection.
    stop() {
      if (this.message.live?.at) play.end(this.message.live.at);
      this.stopping.abort();
    }

    // ask sends a request and takes its reply.
    async ask(asked) {
      const live = this.message.live;
      live.resumable = asked.door === "chat.completions";
      await this.during(async (signal) => {
        await this.host.save(this.chat); // before anything is sent: a reload finds what it must go on with
        await this.take(await this.post(asked, signal), asked, signal);
      });
    }

    // post sends the request. Who stops before the head of the reply has arrived does not wait for it. The call of a stream
    // would go on, so it is ended as soon as its address is known.
    async post(asked, signal) {
      signal.throwIfAborted();
      const sending = new AbortController();
      const posting = play.post(asked, this.message.live.key, sending.signal);
      const stopped = new Promise((_, failed) => signal.addEventListener("abort", () => failed(signal.reason), { once: true }));
      try {
        const response = await Promise.race([posting, stopped]);
        signal.addEventListener("abort", () => sending.abort(), { once: true });
        return response;
      } catch (error) {
        if (signal.aborted) {
          if (!asked.body.stream || asked.door !== "chat.completions") sending.abort();
          posting.then((response) => { play.end(response.headers.get("x-sluice-resume")); sending.abort(); }, () => {});
        }
        throw error;
      }
    }

    // resume goes on with a reply that an earlier page has asked for. What it kept of the reply is read again.
    async resume(asked) {
      const live = this.message.live;
      this.message.again = true;
      await this.during(async (signal) => {
        if (!live.resumable) throw play.cutOff();
        if (!live.at) return this.take(await this.post(asked, signal), asked, signal);
        const response = await play.rest(live.at, "", signal);
        this.empty();
        return this.take(response, asked, signal);
      });
    }

    // empty drops what was collected.
    empty() {
      const m = this.message;
      m.content = "";
      for (const name of ["reasoning", "mcp", "tool_calls"]) delete m[name];
    }

    // during runs work and settles the message, whatever happens.
    async during(work) {
      try {
        await work(this.stopping.signal);
      } catch (error) {
        if (error.name === "AbortError" && this.first !== undefined) this.finish(true);
        else if (error.name === "AbortError") this.fail(new Error("Stopped before the reply began."));
        else this.fail(error);
      }
      cancelAnimationFrame(this.frame);
      this.frame = 0;
    }

    // take reads a reply.
    async take(response, asked, signal) {
      const live = this.message.live;
      if (!this.message.again) this.id = response.headers.get("x-request-id");
      if (!asked.body.stream) {
        const whole = await response.json();
        if (whole.output) this.whole(whole); else this.add(whole.choices[0].message);
        ({ model: this.model, usage: this.usage } = whole);
        this.first = undefined; // nothing is known of it
        return this.finish();
      }
      live.at = response.headers.get("x-sluice-resume") || live.at;
      if (live.at && !this.message.again) this.host.save(this.chat);
      for await (const data of play.events(response, live.at, signal)) {
        if (data === "[DONE]") return this.finish();
        const chunk = JSON.parse(data);
        const problem = play.problemOf(chunk);
        if (problem) throw problem;
        if (chunk.type) {
          this.event(chunk);
          if (["response.completed", "response.incomplete"].includes(chunk.type)) {
            ({ model: this.model, usage: this.usage } = chunk.response);
            return this.finish();
          }
          continue;
        }
        this.id ||= chunk.id?.replace(/^chatcmpl-/, "");
        this.model = chunk.model || this.model;
        this.usage = chunk.usage || this.usage;
        for (const choice of chunk.choices) this.add(choice.delta);
      }
      throw play.cutOff();
    }

    // add appends one delta of a chat completion, or the message of one that is not streamed.
    add(delta) {
      const m = this.message;
      if (delta.reasoning_content) m.reasoning = (m.reasoning || "") + delta.reasoning_content;
      const text = (delta.content || "") + (delta.refusal || "");
      m.content += text;
      for (const [i, piece] of (delta.tool_calls || []).entries()) {
        const call = (m.tool_calls ||= [])[piece.index ?? i] ||= { id: "", type: "function", function: { name: "", arguments: "" } };
        if (piece.id) call.id = piece.id;
        if (piece.function?.name) call.function.name = piece.function.name;
        call.function.arguments += piece.function?.arguments || "";
      }
      if (delta.reasoning_content || text || delta.tool_calls) this.touch();
    }
    // event takes an event of a response.
    event(e) {
      const m = this.message;
      switch (e.type) {
        case "response.output_text.delta": case "response.refusal.delta": m.content += e.delta; break;
        case "response.reasoning_summary_text.delta": m.reasoning = (m.reasoning || "") + e.delta; break;
        case "response.output_item.added": case "response.output_item.done":
          if (!/_call$/.test(e.item.type)) return; // texts come as deltas
          this.item(e.item, e.type.endsWith("done"));
          break;
        default: return;
      }
      this.touch();
    }
    // item takes an item of a response: a call of the service or of the model.
    item(item, done) {
      const m = this.message;
      if (item.type === "mcp_call") {
        const list = m.mcp ||= [];
        const call = { id: item.id, server: item.server_label, name: item.name, arguments: item.arguments, ...(done && { output: item.output ?? "", error: item.error ?? undefined }) };
        const at = list.findIndex((c) => c.id === item.id);
        if (at < 0) list.push(call); else list[at] = call;
        if (m.content && !m.content.endsWith("\n\n")) m.content += "\n\n";
      } else if (item.type === "function_call" && done) {
        (m.tool_calls ||= []).push({ id: item.call_id, type: "function", function: { name: item.name, arguments: item.arguments } });
      }
    }
    // whole takes a response that is not streamed.
    whole(r) {
      for (const item of r.output) {
        if (item.type === "message") this.message.content += item.content.map((c) => c.text ?? c.refusal ?? "").join("");
        else if (item.type === "reasoning") this.message.reasoning = item.summary.map((s) => s.text).join("\n\n");
        else this.item(item, true);
      }
    }

    finish(stopped) {
      const m = this.message, usage = this.usage;
      const u = usage && {
        input: usage.prompt_tokens ?? usage.input_tokens, output: usage.completion_tokens ?? usage.output_tokens,
        cached: (usage.prompt_tokens_details ?? usage.input_tokens_details)?.cached_tokens || 0,
        reasoning: (usage.completion_tokens_details ?? usage.output_tokens_details)?.reasoning_tokens || 0,
        ...(usage.cost != null && { cost: Number(usage.cost) }),
      };
      m.facts = { model: this.model || m.model, ...(!m.again && { first: this.first, total: performance.now() - this.began }), usage: u, id: this.id, stopped };
      if (stopped && !m.content && m.tool_calls) delete m.tool_calls; // arguments that were cut off cannot be answered
      delete m.live;
      delete m.again;
      if (m.versions) {
        const { versions, version, ...own } = m;
        versions[version] = structuredClone(own);
      }
    }

    // fail takes the reply out of the conversation. The message that caused it is marked and not sent again by itself; if
    // this was another try, the reply before it comes back. A reply that nobody came back for in time may be kept whole:
    // its key gets it.
    fail(error) {
      const list = this.chat.lanes[this.lane].messages, m = this.message;
      const at = list.indexOf(m);
      if (at >= 0) list.splice(at);
      if (m.versions?.length > 1) {
        const versions = m.versions.slice(0, -1);
        list.push({ ...structuredClone(versions.at(-1)), versions, version: versions.length - 1 });
        this.failed = error.message;
        return;
      }
      let last = list.at(-1);
      if (last?.role !== "user") list.push(last = { role: "user", content: "" });
      last.error = error.message;
      last.why = { status: error.status, type: error.type, long: error.long, until: error.wait ? Date.now() + 1000 * error.wait : 0, key: m.again ? m.live.key : "" };
    }
  };
})();
