// The helper in examples/resume below the npm package openai: connections that break after any number of bytes.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { describe, it } from 'node:test';
import OpenAI from 'openai';
import { keys, models, said, script, url } from './gateway.mjs';

// helper loads the TypeScript file, without its types.
function helper() {
  const source = readFileSync(new URL('../../examples/resume/resume.ts', import.meta.url), 'utf8');
  assert.ok(source.includes('export function resumable'));
  return import(`data:text/javascript,${encodeURIComponent(stripTypeScriptTypes(source))}`);
}

const { resumable } = await helper();

// breaking is a fetch whose bodies break after so many bytes, each time a few more. It counts the requests.
function breaking(bytes) {
  const sent = [];
  const fetching = async (input, init) => {
    sent.push(init.method ?? 'GET');
    const response = await fetch(input, init);
    const reader = response.body.getReader();
    let left = (bytes += 97);
    const body = new ReadableStream({
      async pull(controller) {
        const { done, value } = await reader.read();
        if (done) return controller.close();
        controller.enqueue(value.subarray(0, left));
        left -= value.length;
        if (left <= 0) {
          await reader.cancel();
          controller.error(new Error('the connection broke'));
        }
      },
    });
    return new Response(body, { status: response.status, headers: response.headers });
  };
  return { fetch: fetching, sent };
}

async function read(client, model, text) {
  let content = '';
  let usage = null;
  let finish = null;
  const body = { model, messages: [{ role: 'user', content: text }], temperature: 0, stream: true, stream_options: { include_usage: true } };
  for await (const chunk of await client.chat.completions.create(body)) {
    content += chunk.choices[0]?.delta.content ?? '';
    finish ??= chunk.choices[0]?.finish_reason ?? null;
    usage ??= chunk.usage ?? null;
  }
  return { content, usage, finish };
}

describe('examples/resume/resume.ts', () => {
  for (const [name, model, text] of [
    ['a sandbox model', models.small, 'Write a paragraph about sluices.'],
    ['an upstream', models.upstream, script({ do: 'say' }).text],
  ]) {
    it(`reads a stream of ${name} whole`, async () => {
      const plain = await read(new OpenAI({ baseURL: url, apiKey: keys.owner }), model, text);
      assert.equal(plain.finish, 'stop');
      if (model === models.upstream) assert.equal(plain.content, said);
      for (let bytes = 0; bytes < 2000; bytes += 113) {
        const wire = breaking(bytes);
        const client = new OpenAI({ baseURL: url, apiKey: keys.owner, fetch: resumable(wire.fetch), maxRetries: 0 });
        assert.deepEqual(await read(client, model, text), plain, `cut after ${bytes} bytes`);
        assert.equal(wire.sent.filter((method) => method.toUpperCase() === 'POST').length, 1, 'it was asked once');
      }
    });
  }

  it('passes other requests through', async () => {
    const client = new OpenAI({ baseURL: url, apiKey: keys.owner, fetch: resumable() });
    assert.ok((await client.models.list()).data.length > 0);
    const reply = await client.chat.completions.create({ model: models.small, messages: [{ role: 'user', content: 'Say hello.' }] });
    assert.ok(reply.choices[0].message.content);
  });
});
