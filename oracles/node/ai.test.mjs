// The npm packages ai and @ai-sdk/openai-compatible against the gateway.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { APICallError, generateObject, generateText, Output, RetryError, stepCountIs, streamObject, streamText, tool } from 'ai';
import { z } from 'zod';
import {
  answered, atOnce, broken, calls, countingFetch, firstSaid, keys, models, options, refusals, said, script, thought, upstreamWords, url,
} from './gateway.mjs';

globalThis.AI_SDK_LOG_WARNINGS = false;

const provider = (apiKey = keys.owner, more = {}) =>
  createOpenAICompatible({ name: 'sluice', baseURL: url, apiKey, includeUsage: true, supportsStructuredOutputs: true, ...more });
const gateway = provider();

const ask = (model, prompt, more = {}) => ({ model: gateway(model), prompt, temperature: 0, ...more });

// follow reads a stream to its end and keeps what came and what went wrong.
async function follow(request) {
  const got = { text: '', reasoning: '', deltas: 0, inputPieces: 0, errors: [], parts: new Set() };
  const result = streamText({ ...request, onError: ({ error }) => got.errors.push(error) });
  for await (const part of result.fullStream) {
    got.parts.add(part.type);
    switch (part.type) {
      case 'text-delta':
        got.text += part.text;
        got.deltas++;
        break;
      case 'reasoning-delta':
        got.reasoning += part.text;
        break;
      case 'tool-input-delta':
        got.inputPieces++;
        break;
    }
  }
  return { ...got, result };
}

const cityTool = (description, execute) => tool({ description, inputSchema: z.object({ city: z.string() }), execute });
const tools = { get_weather: cityTool('Get the weather'), get_time: cityTool('Get the local time') };

// told are calls, one a line.
const told = (made) => made.map((call) => `${call.toolName} ${JSON.stringify(call.input)}`).join('\n');

describe('text', options, () => {
  for (const [name, model, prompt, want] of [
    ['sandbox', models.large, 'Reverse the word stream.', 'maerts'],
    ['unicode', models.small, 'Repeat "grüß dich — 日本語 🎈"', 'grüß dich — 日本語 🎈'],
    ['upstream', models.upstream, script({ do: 'say' }).text, said],
  ]) {
    it(name, async () => {
      const whole = await generateText(ask(model, prompt));
      assert.ok(whole.text.includes(want), whole.text);
      assert.equal(whole.finishReason, 'stop');
      assert.equal(whole.response.modelId, model);
      assert.match(whole.response.id, /^chatcmpl-/);
      assert.ok(whole.usage.inputTokens > 0 && whole.usage.outputTokens > 0);
      assert.equal(whole.usage.totalTokens, whole.usage.inputTokens + whole.usage.outputTokens);

      const stream = await follow(ask(model, prompt));
      assert.deepEqual(stream.errors, []);
      assert.equal(stream.text, whole.text);
      assert.ok(stream.deltas > 1);
      assert.equal(await stream.result.finishReason, 'stop');
      assert.equal((await stream.result.response).modelId, model);
      assert.deepEqual(await stream.result.usage, whole.usage);
    });
  }

  it('usage details', async () => {
    const { usage } = await generateText(ask(models.upstream, script({ do: 'say' }).text));
    assert.equal(usage.totalTokens, 30);
    assert.equal(usage.inputTokenDetails.cacheReadTokens, 5);
    assert.equal(usage.outputTokenDetails.reasoningTokens, 3);
  });

  it('max_tokens', async () => {
    const { finishReason, usage } = await generateText(ask(models.small, '[[sandbox:tokens=50]]', { maxOutputTokens: 7 }));
    assert.equal(finishReason, 'length');
    assert.equal(usage.outputTokens, 7);
  });

  it('conversation', async () => {
    const { text } = await generateText({
      model: gateway(models.small),
      system: 'The capital of Freedonia is Fredville.',
      messages: [
        { role: 'user', content: 'Hello!' },
        { role: 'assistant', content: 'Hello to you.' },
        { role: 'user', content: [{ type: 'text', text: 'What is the capital of Freedonia?' }] },
      ],
    });
    assert.ok(text.includes('Fredville'), text);
  });
});

describe('reasoning', options, () => {
  for (const [name, request, reasoning, text] of [
    ['sandbox', ask(models.reasoner, 'What is 6 * 7?', { providerOptions: { sluice: { reasoningEffort: 'low' } } }), 'arithmetic', '42'],
    ['upstream', ask(models.upstream, script({ do: 'think' }).text), thought, answered],
  ]) {
    it(name, async () => {
      const whole = await generateText(request);
      assert.ok(whole.reasoningText.includes(reasoning), whole.reasoningText);
      assert.ok(whole.text.includes(text), whole.text);
      const stream = await follow(request);
      assert.equal(stream.reasoning, whole.reasoningText);
      assert.equal(stream.text, whole.text);
    });
  }
});

describe('JSON', options, () => {
  const schema = z.object({ from: z.string(), to: z.string(), seats: z.number().int() });
  const trip = { from: 'Porto', to: 'Lisbon', seats: 3 };
  const prompt = 'A train from Porto to Lisbon with 3 seats';

  it('object', async () => {
    const { object } = await generateObject(ask(models.small, 'What is 6 * 7? Answer as JSON.', { output: 'no-schema' }));
    assert.equal(typeof object, 'object');
    assert.ok(Object.keys(object).length > 0);
  });

  it('schema', async () => {
    assert.deepEqual((await generateObject(ask(models.small, prompt, { schema }))).object, trip);
  });

  it('schema, streamed', async () => {
    const result = streamObject(ask(models.small, prompt, { schema }));
    let last;
    for await (const partial of result.partialObjectStream) {
      last = partial;
    }
    assert.deepEqual(last, trip);
    assert.deepEqual(await result.object, trip);
  });

  it('output of text', async () => {
    const { output } = await generateText(ask(models.small, prompt, { output: Output.object({ schema }) }));
    assert.deepEqual(output, trip);
  });

  // Left to itself the package asks for JSON and keeps the schema to itself: the prompt has to tell it.
  describe('without supportsStructuredOutputs', () => {
    const plain = provider(keys.owner, { supportsStructuredOutputs: false })(models.small);
    for (const [name, more] of [
      ['schema in the system prompt', { system: `JSON schema:\n${JSON.stringify(z.toJSONSchema(schema))}\nYou MUST answer with a JSON object that matches the JSON schema above.` }],
      ['keys in the prompt', { prompt: `${prompt}. Return JSON with the keys from, to and seats.` }],
      ['keys of the text', {}],
    ]) {
      it(name, async () => {
        assert.deepEqual((await generateObject({ model: plain, prompt, schema, ...more })).object, trip);
        const { partialObjectStream, object } = streamObject({ model: plain, prompt, schema, ...more });
        for await (const _ of partialObjectStream);
        assert.deepEqual(await object, trip);
      });
    }
  });

  it('upstream', async () => {
    const { text } = await generateText(ask(models.upstream, script({ do: 'echo' }).text, { seed: 7 }));
    const received = JSON.parse(text);
    assert.equal(received.seed, 7);
    assert.notEqual(received.model, models.upstream);
  });
});

describe('tools', options, () => {
  const both = 'get_weather {"city":"Paris"}\nget_time {"city":"Tokyo"}';
  const optional = { get_weather: tool({ description: 'Get the weather', inputSchema: z.object({ city: z.string().optional() }) }) };
  for (const [name, model, prompt, toolChoice, want, offered = tools] of [
    ['one', models.small, 'What is the weather in Paris?', undefined, 'get_weather {"city":"Paris"}'],
    ['several', models.small, "What's the weather in Paris and what time is it in Tokyo?", 'auto', both],
    ['forced', models.small, 'What is the weather in Paris?', { type: 'tool', toolName: 'get_time' }, 'get_time {"city":"Paris"}'],
    ['none', models.small, 'Use get_weather for Paris', 'none', ''],
    ['optional', models.small, 'weather in Paris', 'auto', 'get_weather {"city":"Paris"}', optional],
    ['required', models.small, 'Hello, weather friend in Rome!', 'required', 'get_weather {"city":"Rome"}'],
    ['upstream', models.upstream, script({ do: 'call' }).text, undefined, both],
  ]) {
    it(name, async () => {
      const request = ask(model, prompt, { tools: offered, toolChoice });
      const whole = await generateText(request);
      const finish = want ? 'tool-calls' : 'stop';
      assert.equal(told(whole.toolCalls), want);
      assert.equal(whole.finishReason, finish);
      assert.equal(whole.text === '', want !== '');
      const stream = await follow(request);
      assert.deepEqual(stream.errors, []);
      const streamed = await stream.result.toolCalls;
      assert.equal(told(streamed), want);
      assert.equal(await stream.result.finishReason, finish);
      assert.ok(stream.inputPieces >= 2 * streamed.length);
    });
  }

  for (const model of [models.small, models.upstream]) {
    for (const streaming of [false, true]) {
      it(`round trip on ${model}, streamed ${streaming}`, async () => {
        const ran = [];
        const runnable = (name, description, result) =>
          cityTool(description, async ({ city }) => {
            ran.push(`${name} ${city}`);
            return result;
          });
        const prompt = model === models.small ? "What's the weather in Paris and what time is it in Tokyo?" : script({ do: 'call' }).text;
        const request = ask(model, prompt, {
          tools: {
            get_weather: runnable('get_weather', 'Get the weather', { temperature: 18 }),
            get_time: runnable('get_time', 'Get the local time', { time: '09:41' }),
          },
          stopWhen: stepCountIs(4),
        });
        let text;
        let steps;
        if (streaming) {
          const stream = await follow(request);
          assert.deepEqual(stream.errors, []);
          text = await stream.result.text;
          steps = await stream.result.steps;
        } else {
          ({ text, steps } = await generateText(request));
        }
        assert.deepEqual(ran.sort(), ['get_time Tokyo', 'get_weather Paris']);
        assert.equal(steps.length, 2);
        assert.ok(text.includes('18') && text.includes('09:41'), text);
      });
    }
  }
});

describe('errors', options, () => {
  // check holds an error against what was refused.
  function check(error, { status, type, param }) {
    assert.ok(APICallError.isInstance(error), `${error?.name}: ${error?.message}`);
    assert.equal(error.statusCode, status);
    assert.deepEqual({ type: error.data.error.type, code: error.data.error.code, param: error.data.error.param }, { type, code: status, param });
    assert.ok(error.message.length > 20, error.message);
    assert.equal(error.message, error.data.error.message);
    assert.equal(error.isRetryable, status >= 429);
    assert.ok(error.responseHeaders['x-request-id']);
    return true;
  }

  for (const refusal of refusals) {
    const { name, key, model, text, temperature = 0 } = refusal;
    const request = { model: provider(key)(model), prompt: text, temperature, maxRetries: 0 };
    it(name, async () => {
      await assert.rejects(generateText(request), (error) => check(error, refusal));
    });
    it(`${name}, streamed`, async () => {
      const { errors, text: got } = await follow(request);
      assert.equal(errors.length, 1);
      check(errors[0], refusal);
      assert.equal(got, '');
    });
  }

  for (const { name, model, text } of broken) {
    it(`broken stream: ${name}`, async () => {
      const { errors, text: got, result } = await follow(ask(model, text));
      assert.equal(errors.length, 1);
      assert.deepEqual({ type: errors[0].type, code: errors[0].code }, { type: 'service_unavailable', code: 503 });
      assert.ok(!errors[0].message.includes(upstreamWords));
      assert.ok(got);
      assert.equal(await result.finishReason, 'error');
    });
  }
});

describe('retries', options, () => {
  // One after the other: a 429 of the only target holds all its calls for a moment.
  it('recovers', async () => {
    for (const status of [503, 429]) {
      for (const streaming of [false, true]) {
        const { key, text: prompt } = script({ do: 'fail', status, times: 2 });
        const request = ask(models.upstream, prompt);
        const { text } = streaming ? await follow(request) : await generateText(request);
        assert.equal(text, said, `${status}, streamed ${streaming}`);
        assert.equal((await calls(key)).attempts, 3);
      }
    }
  });

  for (const status of [429, 503]) {
    it(`gives up after ${status}`, async () => {
      const { fetch, sent } = countingFetch();
      const request = { model: provider(keys.owner, { fetch })(models.small), prompt: `[[sandbox:error=${status}]]` };
      await assert.rejects(generateText(request), (error) => {
        assert.ok(RetryError.isInstance(error), error.name);
        assert.equal(error.lastError.statusCode, status);
        return true;
      });
      assert.equal(sent.length, 3);
      // The gateway asks for a second; left to itself the package waits for four before the third attempt.
      const waited = sent[2] - sent[1];
      assert.ok(waited >= 990 && waited < 3500, `the third attempt came after ${waited} ms`);
    });
  }

  for (const status of [400, 401, 402, 403, 404, 413, 423]) {
    it(`does not repeat ${status}`, async () => {
      const { fetch, sent } = countingFetch();
      const request = { model: provider(keys.owner, { fetch })(models.small), prompt: `[[sandbox:error=${status}]]` };
      await assert.rejects(generateText(request), { statusCode: status });
      assert.equal(sent.length, 1);
    });
  }
});

describe('hang-up', options, () => {
  async function ended(key, since) {
    assert.equal((await calls(key, 'ended')).canceled, true, 'the upstream call went on without a caller');
    assert.ok(Date.now() - since < atOnce, `the upstream call ended ${Date.now() - since} ms after its caller`);
  }

  it('aborting a whole reply', async () => {
    const { key, text: prompt } = script({ do: 'hang' });
    const controller = new AbortController();
    const refused = assert.rejects(generateText(ask(models.upstream, prompt, { abortSignal: controller.signal })), { name: 'AbortError' });
    await calls(key, 'hangs');
    const left = Date.now();
    controller.abort();
    await ended(key, left);
    await refused;
  });

  it('aborting a stream', async () => {
    const { key, text: prompt } = script({ do: 'hang' });
    const controller = new AbortController();
    let left = 0;
    let aborted = false;
    const result = streamText(ask(models.upstream, prompt, { abortSignal: controller.signal, onAbort: () => (aborted = true) }));
    for await (const delta of result.textStream) {
      assert.equal(delta, firstSaid);
      await calls(key, 'hangs');
      left = Date.now();
      controller.abort();
    }
    assert.ok(left && aborted);
    await ended(key, left);
  });
});
