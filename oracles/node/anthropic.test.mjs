// The npm packages @anthropic-ai/sdk and @ai-sdk/anthropic against the gateway.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import { createAnthropic } from '@ai-sdk/anthropic';
import { APICallError, generateObject, generateText, stepCountIs, streamText, tool } from 'ai';
import { z } from 'zod';
import { answered, calls, countingFetch, firstSaid, keys, models, options, said, script, thought, upstreamWords, url } from './gateway.mjs';

globalThis.AI_SDK_LOG_WARNINGS = false;

const base = url.replace(/\/v1$/, '');
const client = new Anthropic({ baseURL: base, apiKey: keys.owner });

const ask = (model, text, more = {}) => ({ model, max_tokens: 1000, messages: [{ role: 'user', content: text }], ...more });

const cityTool = (name, description) => ({
  name, description, input_schema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
});
const tools = [cityTool('get_weather', 'Get the weather'), cityTool('get_time', 'Get the local time')];

const text = (message) => message.content.filter((b) => b.type === 'text').map((b) => b.text).join('');
const told = (message) => message.content.filter((b) => b.type === 'tool_use').map((b) => `${b.name} ${JSON.stringify(b.input)}`).join('\n');

describe('messages', options, () => {
  for (const [name, model, prompt, want] of [
    ['sandbox', models.large, 'Reverse the word stream.', 'maerts'],
    ['unicode', models.small, 'Repeat "grüß dich — 日本語 🎈"', 'grüß dich — 日本語 🎈'],
    ['upstream', models.upstream, script({ do: 'say' }).text, said],
  ]) {
    it(name, async () => {
      const whole = await client.messages.create(ask(model, prompt));
      assert.equal(whole.type, 'message');
      assert.equal(whole.role, 'assistant');
      assert.equal(whole.model, model);
      assert.match(whole.id, /^msg_[0-9a-f]{32}$/);
      assert.equal(whole.stop_reason, 'end_turn');
      assert.equal(whole.stop_sequence, null);
      assert.ok(text(whole).includes(want), text(whole));
      assert.ok(whole.usage.input_tokens > 0 && whole.usage.output_tokens > 0);
      assert.equal(whole._request_id, whole.id.slice('msg_'.length));

      const deltas = [];
      const stream = client.messages.stream(ask(model, prompt)).on('text', (delta) => deltas.push(delta));
      const final = await stream.finalMessage();
      assert.equal(deltas.join(''), text(whole));
      assert.deepEqual(final.content, whole.content);
      assert.equal(final.stop_reason, 'end_turn');
      assert.deepEqual(final.usage, whole.usage);

      const types = [];
      for await (const event of await client.messages.create(ask(model, prompt, { stream: true }))) {
        types.push(event.type);
      }
      assert.equal(types[0], 'message_start');
      assert.deepEqual(types.slice(-3), ['content_block_stop', 'message_delta', 'message_stop']);
    });
  }

  it('usage', async () => {
    const { usage } = await client.messages.create(ask(models.upstream, script({ do: 'say' }).text));
    assert.equal(usage.input_tokens, 16);
    assert.equal(usage.cache_read_input_tokens, 5);
    assert.equal(usage.output_tokens, 9);
  });

  it('tools, two turns', async () => {
    const first = ask(models.small, 'What is the weather in Paris and London?', { tools });
    for (const message of [await client.messages.create(first), await client.messages.stream(first).finalMessage()]) {
      assert.equal(message.stop_reason, 'tool_use');
      assert.equal(told(message), 'get_weather {"city":"Paris"}\nget_weather {"city":"London"}');
      const results = message.content.filter((b) => b.type === 'tool_use').map((b, i) => ({
        type: 'tool_result', tool_use_id: b.id, content: [{ type: 'text', text: `${18 + i} degrees` }],
      }));
      const second = await client.messages.create({
        ...first, messages: [...first.messages, { role: 'assistant', content: message.content }, { role: 'user', content: results }],
      });
      assert.equal(second.stop_reason, 'end_turn');
      assert.match(text(second), /18 degrees/);
      assert.match(text(second), /19 degrees/);
    }
    const streamed = await client.messages.stream(ask(models.upstream, script({ do: 'call' }).text, { tools })).finalMessage();
    assert.equal(told(streamed), 'get_weather {"city":"Paris"}\nget_time {"city":"Tokyo"}');
    const forced = await client.messages.create(ask(models.small, 'Rome', { tools, tool_choice: { type: 'tool', name: 'get_time' } }));
    assert.match(told(forced), /^get_time /);
    const none = await client.messages.create(ask(models.small, 'What is the weather in Paris?', { tools, tool_choice: { type: 'none' } }));
    assert.equal(told(none), '');
  });

  it('thinking', async () => {
    const thinking = { type: 'enabled', budget_tokens: 2000 };
    const body = ask(models.upstream, script({ do: 'think' }).text, { thinking, max_tokens: 4000 });
    const whole = await client.messages.create(body);
    const thoughts = [];
    const final = await client.messages.stream(body).on('thinking', (delta) => thoughts.push(delta)).finalMessage();
    for (const message of [whole, final]) {
      assert.equal(message.content[0].type, 'thinking');
      assert.equal(message.content[0].thinking, thought);
      assert.ok(message.content[0].signature);
      assert.equal(text(message), answered);
    }
    assert.equal(thoughts.join(''), thought);
    // What the model said goes back as it came.
    const again = await client.messages.create({
      ...body, messages: [...body.messages, { role: 'assistant', content: final.content }, { role: 'user', content: script({ do: 'say' }).text }],
    });
    assert.equal(text(again), said);
  });

  it('images, JSON, stop sequences, system', async () => {
    const pixel = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
    const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: pixel } };
    const seen = await client.messages.create({
      ...ask(models.upstream, ''), messages: [{ role: 'user', content: [image, { type: 'text', text: 'Look' }] }, { role: 'user', content: script({ do: 'say' }).text }],
    });
    assert.equal(text(seen), said);
    const json = await client.messages.create(ask(models.small, 'Gate 4, 212 cm', {
      output_config: { format: { type: 'json_schema', schema: { type: 'object', properties: { gate: { type: 'integer' } }, required: ['gate'], additionalProperties: false } } },
    }));
    assert.deepEqual(Object.keys(JSON.parse(text(json))), ['gate']);
    const stopped = await client.messages.create(ask(models.small, 'Repeat exactly: one two three', { stop_sequences: ['two'], system: [{ type: 'text', text: 'Be brief.' }] }));
    assert.equal(stopped.stop_reason, 'stop_sequence');
    assert.equal(stopped.stop_sequence, 'two');
    assert.equal(text(stopped).trim(), 'one');
    const short = await client.messages.create(ask(models.small, 'Repeat exactly: one two three four', { max_tokens: 1 }));
    assert.equal(short.stop_reason, 'max_tokens');
  });

  it('count_tokens, models', async () => {
    const counted = await client.messages.countTokens({ model: models.small, messages: [{ role: 'user', content: 'Hello, world' }], tools });
    const { usage } = await client.messages.create(ask(models.small, 'Hello, world', { tools }));
    assert.ok(Math.abs(counted.input_tokens - usage.input_tokens) <= 0.5 * usage.input_tokens, `${counted.input_tokens} and ${usage.input_tokens}`);
    const listed = [];
    for await (const model of client.models.list({ limit: 2 })) {
      listed.push(model.id);
    }
    assert.ok(listed.length > 4 && new Set(listed).size === listed.length && listed.includes(models.small));
    assert.equal((await client.models.retrieve(models.small)).id, models.small);
  });

  it('errors', async () => {
    const fails = async (key, body, kind, status, message) => {
      const other = new Anthropic({ baseURL: base, apiKey: key, maxRetries: 0 });
      for (const stream of [false, true]) {
        await assert.rejects(other.messages.create({ ...body, stream }), (error) => {
          assert.ok(error instanceof kind, error);
          assert.equal(error.status, status);
          assert.equal(error.error.type, 'error');
          assert.match(error.error.error.message, message);
          assert.ok(error.requestID && error.error.request_id === error.requestID);
          return true;
        });
      }
    };
    const good = ask(models.small, 'Hi');
    await fails(keys.unknown, good, Anthropic.AuthenticationError, 401, /key/);
    await fails(keys.suspended, good, Anthropic.APIError, 423, /suspended/);
    await fails(keys.none, ask(models.large, 'Hi'), Anthropic.APIError, 402, /plan/);
    await fails(keys.free, { ...good, tools }, Anthropic.PermissionDeniedError, 403, /tools/i);
    await fails(keys.owner, { ...good, max_tokens: 0 }, Anthropic.BadRequestError, 400, /^max_tokens: /);
    await fails(keys.owner, ask('nobody', 'Hi'), Anthropic.BadRequestError, 400, /^model: /);
    await fails(keys.owner, ask(models.upstream, script({ do: 'fail', status: 400 }).text), Anthropic.BadRequestError, 400, new RegExp(upstreamWords));
    await fails(keys.owner, ask(models.stranded, 'Hi'), Anthropic.InternalServerError, 503, /available|reached/);
  });

  it('bearer', async () => {
    const other = new Anthropic({ baseURL: base, apiKey: null, authToken: keys.owner });
    assert.equal((await other.messages.create(ask(models.small, 'Hi'))).type, 'message');
  });

  it('a stream that is cut', async () => {
    const seen = [];
    await assert.rejects(client.messages.stream(ask(models.upstream, script({ do: 'cut' }).text)).on('text', (delta) => seen.push(delta)).finalMessage(), (error) => {
      assert.ok(error instanceof Anthropic.APIError, error);
      assert.equal(error.error.error.type, 'overloaded_error');
      return true;
    });
    assert.equal(seen[0], firstSaid);
  });

  it('hanging up', async () => {
    const { key, text: order } = script({ do: 'hang' });
    const stream = await client.messages.create(ask(models.upstream, order, { stream: true }));
    for await (const event of stream) {
      if (event.type === 'content_block_delta') {
        break; // which ends the connection
      }
    }
    assert.equal((await calls(key, 'ended')).canceled, true);
  });

  it('an idempotent repeat', async () => {
    const { key, text: order } = script({ do: 'say' });
    const headers = { 'Idempotency-Key': key };
    for (const stream of [false, true]) {
      const more = { headers: { ...headers, 'Idempotency-Key': `${key}-${stream}` } };
      const read = async () => (stream ? client.messages.stream(ask(models.upstream, order), more).finalMessage() : client.messages.create(ask(models.upstream, order), more));
      const first = await read();
      const second = await read();
      assert.deepEqual(second.content, first.content);
      assert.equal(second.id, first.id);
    }
    assert.equal((await calls(key)).attempts, 2, 'each was asked for once');
  });

  it('does not repeat a call that may cost too much', async () => {
    const { fetch, sent } = countingFetch();
    const counted = new Anthropic({ baseURL: base, apiKey: keys.owner, fetch });
    await assert.rejects(counted.messages.create(ask(models.upstream, 'Hi', { max_cost: 0 })), (error) => {
      assert.equal(error.status, 402);
      assert.equal(error.error.error.type, 'billing_error');
      assert.deepEqual(error.error.error.details.budget.scope, { request: true });
      return true;
    });
    assert.equal(sent.length, 1);
  });
});

const provider = createAnthropic({ baseURL: url, apiKey: keys.owner });

describe('@ai-sdk/anthropic', options, () => {
  const city = (description, execute) => tool({ description, inputSchema: z.object({ city: z.string() }), execute });

  it('text', async () => {
    for (const [model, prompt, want] of [[models.large, 'Reverse the word stream.', 'maerts'], [models.upstream, script({ do: 'say' }).text, said]]) {
      const whole = await generateText({ model: provider(model), prompt });
      assert.ok(whole.text.includes(want), whole.text);
      assert.equal(whole.finishReason, 'stop');
      assert.match(whole.response.id, /^msg_/);
      const result = streamText({ model: provider(model), prompt });
      let streamed = '';
      for await (const piece of result.textStream) {
        streamed += piece;
      }
      assert.equal(streamed, whole.text);
      assert.equal(await result.finishReason, 'stop');
      const usage = await result.usage;
      assert.equal(usage.outputTokens, whole.usage.outputTokens);
      assert.equal(usage.inputTokens, whole.usage.inputTokens);
    }
  });

  it('tools in steps', async () => {
    const asked = [];
    const request = {
      model: provider(models.small), prompt: 'What is the weather in Paris and London?', stopWhen: stepCountIs(3),
      tools: { get_weather: city('Get the weather', async ({ city: where }) => { asked.push(where); return `18 degrees in ${where}`; }) },
    };
    const whole = await generateText(request);
    assert.match(whole.text, /18 degrees in London/);
    const result = streamText(request);
    let streamed = '';
    for await (const piece of result.textStream) {
      streamed += piece;
    }
    assert.match(streamed, /18 degrees in London/);
    assert.deepEqual(asked.sort(), ['London', 'London', 'Paris', 'Paris']);
  });

  it('reasoning', async () => {
    const request = {
      model: provider(models.upstream), prompt: script({ do: 'think' }).text, maxOutputTokens: 2000,
      providerOptions: { anthropic: { thinking: { type: 'enabled', budgetTokens: 1500 } } },
    };
    const whole = await generateText(request);
    assert.equal(whole.reasoningText, thought);
    assert.equal(whole.text, answered);
    const result = streamText(request);
    assert.equal(await result.reasoningText, thought);
    assert.equal(await result.text, answered);
  });

  it('objects', async () => {
    const { object } = await generateObject({ model: provider(models.small), prompt: 'Gate 4, 212 cm', schema: z.object({ gate: z.number(), level: z.number() }) });
    assert.deepEqual(Object.keys(object).sort(), ['gate', 'level']);
  });

  it('errors', async () => {
    await assert.rejects(generateText({ model: provider('nobody'), prompt: 'Hi', maxRetries: 0 }), (error) => {
      assert.ok(APICallError.isInstance(error), error);
      assert.equal(error.statusCode, 400);
      assert.match(error.message, /^model: There is no model/);
      return true;
    });
    const seen = [];
    const result = streamText({ model: provider(models.upstream), prompt: script({ do: 'cut' }).text, maxRetries: 0, onError: ({ error }) => seen.push(error) });
    for await (const part of result.fullStream) {
      assert.notEqual(part.type === 'finish' && part.finishReason, 'stop', 'a cut stream must not look complete');
    }
    assert.equal(seen.length, 1);
  });
});
