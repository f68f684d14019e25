// A fetch that survives broken connections: it goes below any client library and continues streamed chat completions
// where they broke off (docs/api.md#resumable-streams).
//
//   const client = new OpenAI({ baseURL, apiKey, fetch: resumable() });
//
// Copy this file into your program; it needs nothing but fetch.

type Fetch = typeof fetch;

/** How long the rest of a stream is tried for, in milliseconds. The server waits as long. */
const patience = 120_000;

/** Returns a fetch that asks for resumable streams and resumes them. Other requests pass through it unchanged. */
export function resumable(base: Fetch = fetch): Fetch {
  return async (input, init) => {
    const url = new URL(input instanceof Request ? input.url : String(input));
    const method = init?.method ?? (input instanceof Request ? input.method : 'GET');
    if (method.toUpperCase() !== 'POST' || !url.pathname.endsWith('/chat/completions') || input instanceof Request) {
      return base(input, init);
    }
    const headers = new Headers(init?.headers);
    headers.set('x-sluice-resume', '1');
    if (!headers.has('idempotency-key')) {
      // A request that is lost before its reply has begun is sent again, and not charged twice.
      headers.set('idempotency-key', crypto.randomUUID());
    }
    const send = () => base(input, { ...init, headers });
    const response = await send().catch((err) => {
      if (init?.signal?.aborted) throw err;
      return send();
    });
    const at = response.headers.get('x-sluice-resume');
    if (!at || !response.body) {
      return response;
    }
    const rest = (last: string) => {
      const again = new Headers({ authorization: headers.get('authorization') ?? '' });
      if (last) again.set('last-event-id', last);
      return base(new URL(at, url), { headers: again, signal: init?.signal });
    };
    const { status, statusText } = response;
    return new Response(whole(response.body, rest, init?.signal ?? undefined), { status, statusText, headers: response.headers });
  };
}

/** Returns a body that has whole events only, and ends only where the stream does. */
function whole(first: ReadableStream<Uint8Array>, rest: (last: string) => Promise<Response>, signal?: AbortSignal): ReadableStream<Uint8Array> {
  let reader = first.getReader();
  let text = new TextDecoder();
  let pending = '';
  let last = '';
  const out = new TextEncoder();

  async function resume(why: unknown): Promise<void> {
    pending = '';
    text = new TextDecoder();
    for (let until = Date.now() + patience, pause = 100; ; pause = Math.min(2 * pause, 5000)) {
      const response = await rest(last).catch((err) => {
        if (signal?.aborted) throw err;
        return null;
      });
      if (response?.ok && response.body) {
        reader = response.body.getReader();
        return;
      }
      if (response && response.status < 500) throw new Error(`the stream cannot be resumed: ${response.status}`, { cause: why });
      if (Date.now() > until) throw why;
      await new Promise((done) => setTimeout(done, pause));
    }
  }

  return new ReadableStream({
    async pull(controller) {
      for (;;) {
        let ended: unknown;
        const piece = await reader.read().catch((err) => {
          ended = err;
          return { done: true, value: undefined };
        });
        if (!piece.done) {
          pending += text.decode(piece.value, { stream: true });
          const end = pending.lastIndexOf('\n\n') + 2;
          if (end < 2) continue;
          const events = pending.slice(0, end);
          pending = pending.slice(end);
          for (const [, id] of events.matchAll(/^id: (.*)$/gm)) last = id;
          controller.enqueue(out.encode(events));
          if (/^data: (\[DONE\]|\{"error")/m.test(events)) controller.close();
          return;
        }
        if (signal?.aborted) throw ended ?? signal.reason;
        await resume(ended ?? new Error('the connection ended in the middle of the stream'));
      }
    },
    cancel: (reason) => reader.cancel(reason),
  });
}
