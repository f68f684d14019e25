// The embeddings of the npm packages openai, ai and @ai-sdk/openai-compatible against the gateway.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { cosineSimilarity, embed, embedMany } from 'ai';
import OpenAI from 'openai';
import { keys, models, options, url } from './gateway.mjs';

const model = 'sandbox/embed';
const texts = ['The gate is closed tonight', 'Tonight, the gate is closed!', 'The gate is open tonight', 'seven purple umbrellas'];

const client = new OpenAI({ baseURL: url, apiKey: keys.owner, maxRetries: 0 });
const provider = createOpenAICompatible({ name: 'sluice', baseURL: url, apiKey: keys.owner });
const embedder = provider.embeddingModel?.(model) ?? provider.textEmbeddingModel(model);

// ordered checks that vectors are as near to the first as their texts are.
function ordered(vectors) {
  const [same, near, far] = vectors.slice(1).map((vector) => cosineSimilarity(vectors[0], vector));
  assert.ok(same > 0.999 && near < same && far < near, `${same}, ${near}, ${far}`);
}

describe('openai', options, () => {
  // Without a format the client asks for base64 and decodes it.
  for (const [name, more] of [['the default', {}], ['float', { encoding_format: 'float' }]]) {
    it(name, async () => {
      const got = await client.embeddings.create({ model, input: texts, ...more });
      assert.equal(got.object, 'list');
      assert.equal(got.model, model);
      assert.deepEqual(got.data.map((entry) => entry.index), [0, 1, 2, 3]);
      assert.ok(got.data.every((entry) => entry.object === 'embedding' && Array.from(entry.embedding).length === 512));
      ordered(got.data.map((entry) => Array.from(entry.embedding)));
      assert.ok(got.usage.prompt_tokens > 10 && got.usage.prompt_tokens === got.usage.total_tokens);
    });
  }

  it('base64', async () => {
    const [packed, plain] = await Promise.all(['base64', 'float'].map((encoding_format) =>
      client.embeddings.create({ model, input: texts[0], encoding_format, dimensions: 64 })));
    const bytes = Buffer.from(packed.data[0].embedding, 'base64');
    const numbers = Array.from({ length: bytes.length / 4 }, (_, i) => bytes.readFloatLE(4 * i));
    assert.deepEqual(numbers, plain.data[0].embedding.map(Math.fround));
    assert.equal(numbers.length, 64);
  });

  for (const [name, body, param] of [
    ['an empty input', { model, input: '' }, 'input'],
    ['an unknown model', { model: 'no/such-model', input: 'x' }, 'model'],
    ['a chat model', { model: models.small, input: 'x' }, 'model'],
    ['tokens', { model, input: [1, 2] }, 'input'],
    ['too many dimensions', { model, input: 'x', dimensions: 1000 }, 'dimensions'],
  ]) {
    it(name, async () => {
      await assert.rejects(client.embeddings.create(body), (error) =>
        error instanceof OpenAI.BadRequestError && error.param === param && error.type === 'invalid_request_error');
    });
  }

  it('an unknown key', async () => {
    const stranger = new OpenAI({ baseURL: url, apiKey: keys.unknown, maxRetries: 0 });
    await assert.rejects(stranger.embeddings.create({ model, input: 'x' }), OpenAI.AuthenticationError);
  });
});

describe('ai', options, () => {
  it('embed', async () => {
    const { embedding, usage } = await embed({ model: embedder, value: texts[0] });
    assert.equal(embedding.length, 512);
    assert.ok(usage.tokens > 3);
  });

  it('embedMany', async () => {
    const { embeddings } = await embedMany({ model: embedder, values: texts });
    ordered(embeddings);
  });

  it('an error', async () => {
    await assert.rejects(embed({ model: embedder, value: '', maxRetries: 0 }), (error) => error.statusCode === 400);
  });
});
