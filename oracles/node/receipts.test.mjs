// Receipts of all doors, checked with the npm package jose, and streams with receipts read by the official SDKs.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { describe, it } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import { compactVerify, createLocalJWKSet, errors } from 'jose';
import OpenAI from 'openai';
import { keys, models, options, url } from './gateway.mjs';

const origin = new URL(url).origin;
const published = await (await fetch(`${origin}/.well-known/sluice-receipts.json`)).json();
const jwks = createLocalJWKSet(published);
const headers = { authorization: `Bearer ${keys.owner}`, 'content-type': 'application/json' };
const sha256 = (data) => createHash('sha256').update(data).digest('hex');
const messages = [{ role: 'user', content: 'hi' }];

const doors = [
  ['chat', '/v1/chat/completions', { model: models.small, messages }],
  ['responses', '/v1/responses', { model: models.small, input: 'hi' }],
  ['messages', '/v1/messages', { model: models.small, max_tokens: 50, messages }],
];
const calls = [
  ...doors.map((door) => [...door, false]),
  ...doors.map(([name, path, body]) => [name, path, { ...body, stream: true }, true]),
  ['embeddings', '/v1/embeddings', { model: 'sandbox/embed', input: 'hi' }, false],
];

async function verify(jws) {
  const { payload, protectedHeader } = await compactVerify(jws, jwks, { algorithms: ['EdDSA'] });
  assert.equal(protectedHeader.typ, 'sluice-receipt');
  return { claims: JSON.parse(new TextDecoder().decode(payload)), hash: sha256(payload) };
}

async function call(path, body, key = keys.owner) {
  const sent = JSON.stringify(body);
  const response = await fetch(origin + path, { method: 'POST', headers: { ...headers, authorization: `Bearer ${key}`, 'x-sluice-receipt': '1' }, body: sent });
  const reply = Buffer.from(await response.arrayBuffer());
  assert.equal(response.status, 200, reply.toString());
  return { sent, reply, response };
}

describe('jose', options, () => {
  for (const [door, path, body, streamed] of calls) {
    it(`${door}${streamed ? ', streamed' : ''}`, async () => {
      const { sent, reply, response } = await call(path, body);
      let jws = response.headers.get('x-sluice-receipt');
      let said = reply;
      if (streamed) {
        assert.equal(jws, null);
        const at = reply.indexOf('\n: sluice-receipt ') + 1;
        assert.ok(at > 0, reply.toString());
        said = reply.subarray(0, at);
        jws = reply.subarray(at).toString().match(/^: sluice-receipt (\S+)\n\n$/)[1];
      }
      const { claims, hash } = await verify(jws);
      assert.equal(claims.door, door);
      assert.equal(claims.request_sha256, sha256(sent));
      assert.equal(claims.reply_sha256, sha256(said));
      assert.equal(claims.end, 'complete');
      assert.ok(claims.buckets.length > 0);
      // The stored one is the same statement.
      const stored = await (await fetch(`${origin}/v1/receipts/${response.headers.get('x-request-id')}`, { headers })).json();
      assert.equal((await verify(stored.receipt)).hash, hash);
    });
  }

  it('the chain', async () => {
    let last;
    for (const [, path, body] of doors) { // of an account that makes no other calls
      const { response } = await call(path, body, keys.free);
      const { claims, hash } = await verify(response.headers.get('x-sluice-receipt'));
      if (last && last.month === claims.month) {
        assert.equal(claims.n, last.n + 1);
        assert.equal(claims.prev, last.hash);
      }
      last = { month: claims.month, n: claims.n, hash };
    }
  });

  it('a video', async () => {
    const body = JSON.stringify({ prompt: 'a lighthouse', width: 480, height: 480, n_seconds: 1 });
    const jobs = `${origin}/v1/video/generations/jobs`;
    let job = await (await fetch(jobs, { method: 'POST', headers: { ...headers, 'x-sluice-receipt': '1' }, body })).json();
    for (; job.status === 'queued' || job.status === 'running'; job = await (await fetch(`${jobs}/${job.id}`, { headers })).json());
    assert.equal(job.status, 'succeeded');
    const file = Buffer.from(await (await fetch(`${origin}/v1/video/generations/${job.generations[0].id}/content/video`, { headers })).arrayBuffer());
    const stored = await (await fetch(`${origin}/v1/receipts/${job.id}`, { headers })).json();
    const { claims } = await verify(stored.receipt);
    assert.equal(claims.request_sha256, sha256(body));
    assert.equal(claims.reply_sha256, sha256(file));
  });

  it('damage', async () => {
    const { response } = await call(doors[0][1], doors[0][2]);
    const jws = response.headers.get('x-sluice-receipt');
    const at = jws.indexOf('.') + 100;
    const changed = jws.slice(0, at) + (jws[at] === 'A' ? 'B' : 'A') + jws.slice(at + 1);
    await assert.rejects(verify(changed), errors.JWSSignatureVerificationFailed);
    await assert.rejects(compactVerify(jws, createLocalJWKSet({ keys: [{ ...published.keys[0], kid: 'another' }] })), errors.JWKSNoMatchingKey);
  });
});

describe('SDKs read streams with receipts', options, () => {
  const openai = new OpenAI({ baseURL: url, apiKey: keys.owner, maxRetries: 0, defaultHeaders: { 'x-sluice-receipt': '1' } });

  it('openai, chat', async () => {
    let text = '';
    for await (const chunk of await openai.chat.completions.create({ model: models.small, messages, stream: true })) {
      text += chunk.choices[0]?.delta.content ?? '';
    }
    assert.notEqual(text, '');
  });

  it('openai, responses', async () => {
    const stream = openai.responses.stream({ model: models.small, input: 'hi' });
    assert.notEqual((await stream.finalResponse()).output_text, '');
  });

  it('anthropic', async () => {
    const anthropic = new Anthropic({ baseURL: origin, authToken: keys.owner, maxRetries: 0, defaultHeaders: { 'x-sluice-receipt': '1' } });
    const stream = anthropic.messages.stream({ model: models.small, max_tokens: 50, messages });
    assert.notEqual(await stream.finalText(), '');
  });
});
