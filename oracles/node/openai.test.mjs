// The npm package openai against the gateway.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import OpenAI from 'openai';
import { zodResponseFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import {
  atOnce, broken, calls, countingFetch, firstSaid, keys, models, options, refusals, said, script, thought, upstreamWords, url,
} from './gateway.mjs';

const client = new OpenAI({ baseURL: url, apiKey: keys.owner });

const ask = (model, text, more = {}) => ({ model, messages: [{ role: 'user', content: text }], temperature: 0, ...more });

const cityTool = (name, description) => ({
  type: 'function',
  function: { name, description, parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } },
});
const tools = [cityTool('get_weather', 'Get the weather'), cityTool('get_time', 'Get the local time')];

// told are the calls of a message, one a line.
const told = (message) => (message.tool_calls ?? []).map((c) => `${c.function.name} ${c.function.arguments}`).join('\n');

// follow reads a stream to its end and holds every chunk against what a stream is made of.
async function follow(body) {
  const got = { content: '', reasoning: '', finish: null, usage: null, chunks: 0, pieces: 0, calls: [], id: '', model: '' };
  for await (const chunk of await client.chat.completions.create({ ...body, stream: true })) {
    got.chunks++;
    got.id ||= chunk.id;
    got.model = chunk.model;
    assert.equal(chunk.id, got.id);
    assert.equal(chunk.object, 'chat.completion.chunk');
    assert.ok(Number.isInteger(chunk.created));
    assert.equal(got.usage, null, 'nothing comes after the usage');
    assert.ok(!('error' in chunk));
    if ('usage' in chunk) {
      assert.deepEqual(chunk.choices, []);
      got.usage = chunk.usage;
      continue;
    }
    assert.equal(chunk.choices.length, 1);
    assert.equal(got.finish, null, 'no choice comes after the finish reason');
    const { index, delta, finish_reason: finish } = chunk.choices[0];
    assert.equal(index, 0);
    assert.equal(delta.role, got.chunks === 1 ? 'assistant' : undefined);
    got.content += delta.content ?? '';
    got.reasoning += delta.reasoning_content ?? '';
    for (const piece of delta.tool_calls ?? []) {
      got.pieces++;
      const known = got.calls[piece.index];
      assert.equal(Boolean(piece.id && piece.type && piece.function.name), !known, 'id, type and name come once');
      got.calls[piece.index] = known ?? { id: piece.id, function: { name: piece.function.name, arguments: '' } };
      got.calls[piece.index].function.arguments += piece.function.arguments ?? '';
    }
    got.finish = finish;
  }
  return got;
}

describe('text', options, () => {
  for (const [name, model, text, want] of [
    ['sandbox', models.large, 'Reverse the word stream.', 'maerts'],
    ['unicode', models.small, 'Repeat "grüß dich — 日本語 🎈"', 'grüß dich — 日本語 🎈'],
    ['upstream', models.upstream, script({ do: 'say' }).text, said],
  ]) {
    it(name, async () => {
      const whole = await client.chat.completions.create(ask(model, text));
      assert.equal(whole.object, 'chat.completion');
      assert.equal(whole.model, model);
      assert.match(whole.id, /^chatcmpl-/);
      assert.ok(Number.isInteger(whole.created));
      assert.equal(whole.choices.length, 1);
      assert.equal(whole.choices[0].finish_reason, 'stop');
      assert.equal(whole.choices[0].message.role, 'assistant');
      assert.ok(whole.choices[0].message.content.includes(want), whole.choices[0].message.content);
      assert.ok(whole.usage.prompt_tokens > 0 && whole.usage.completion_tokens > 0);
      assert.equal(whole.usage.total_tokens, whole.usage.prompt_tokens + whole.usage.completion_tokens);

      const stream = await follow(ask(model, text, { stream_options: { include_usage: true } }));
      assert.equal(stream.content, whole.choices[0].message.content);
      assert.equal(stream.finish, 'stop');
      assert.equal(stream.model, model);
      assert.deepEqual(stream.usage, whole.usage);
      assert.ok(stream.chunks > 3);

      const plain = await follow(ask(model, text));
      assert.equal(plain.content, stream.content);
      assert.equal(plain.usage, null, 'usage comes only where it was asked for');
    });
  }

  it('usage details', async () => {
    const { usage } = await client.chat.completions.create(ask(models.upstream, script({ do: 'say' }).text));
    assert.equal(usage.total_tokens, 30);
    assert.equal(usage.prompt_tokens_details.cached_tokens, 5);
    assert.equal(usage.completion_tokens_details.reasoning_tokens, 3);
  });

  it('stream helper', async () => {
    const deltas = [];
    const stream = client.chat.completions
      .stream(ask(models.upstream, script({ do: 'say' }).text, { stream_options: { include_usage: true } }))
      .on('content', (delta) => deltas.push(delta));
    const final = await stream.finalChatCompletion();
    assert.equal(deltas.join(''), said);
    assert.equal(final.choices[0].message.content, said);
    assert.equal(final.choices[0].finish_reason, 'stop');
    assert.equal((await stream.totalUsage()).total_tokens, 30);
  });

  it('request id', async () => {
    const { request_id: id } = await client.chat.completions.create(ask(models.small, 'Hi')).withResponse();
    assert.ok(id);
  });

  it('max_tokens', async () => {
    const stream = await follow(ask(models.small, '[[sandbox:tokens=50]]', { max_tokens: 7, stream_options: { include_usage: true } }));
    assert.equal(stream.finish, 'length');
    assert.equal(stream.usage.completion_tokens, 7);
  });
});

describe('reasoning', options, () => {
  for (const [name, body, want] of [
    ['sandbox', ask(models.reasoner, 'What is 6 * 7?', { reasoning_effort: 'low' }), 'arithmetic'],
    ['upstream', ask(models.upstream, script({ do: 'think' }).text), thought],
  ]) {
    it(name, async () => {
      const { message } = (await client.chat.completions.create(body)).choices[0];
      assert.ok(message.reasoning_content.includes(want), message.reasoning_content);
      assert.ok(message.content.includes('42'), message.content);
      const stream = await follow(body);
      assert.equal(stream.reasoning, message.reasoning_content);
      assert.equal(stream.content, message.content);
    });
  }
});

describe('JSON', options, () => {
  const Trip = z.object({ from: z.string(), to: z.string(), seats: z.number().int() });
  const trip = { from: 'Porto', to: 'Lisbon', seats: 3 };

  it('object', async () => {
    const body = ask(models.small, 'What is 6 * 7? Answer as JSON.', { response_format: { type: 'json_object' } });
    const { message } = (await client.chat.completions.create(body)).choices[0];
    assert.equal(typeof JSON.parse(message.content), 'object');
    assert.deepEqual(JSON.parse((await follow(body)).content), JSON.parse(message.content));
  });

  it('schema', async () => {
    const body = ask(models.small, 'A train from Porto to Lisbon with 3 seats', { response_format: zodResponseFormat(Trip, 'trip') });
    const whole = await client.chat.completions.parse(body);
    assert.deepEqual(whole.choices[0].message.parsed, trip);
    const streamed = await client.chat.completions.stream(body).finalChatCompletion();
    assert.deepEqual(streamed.choices[0].message.parsed, trip);
  });

  it('upstream', async () => {
    const body = ask(models.upstream, script({ do: 'echo' }).text, { response_format: zodResponseFormat(Trip, 'trip'), seed: 7 });
    const whole = await client.chat.completions.create(body);
    const received = JSON.parse(whole.choices[0].message.content);
    assert.deepEqual(received.response_format, JSON.parse(JSON.stringify(body.response_format)));
    assert.equal(received.seed, 7);
    assert.notEqual(received.model, models.upstream);
  });
});

describe('tools', options, () => {
  const both = 'get_weather {"city":"Paris"}\nget_time {"city":"Tokyo"}';
  for (const [name, model, text, choice, want] of [
    ['one', models.small, 'What is the weather in Paris?', undefined, 'get_weather {"city":"Paris"}'],
    ['several', models.small, "What's the weather in Paris and what time is it in Tokyo?", 'auto', both],
    ['forced', models.small, 'What is the weather in Paris?', { type: 'function', function: { name: 'get_time' } }, 'get_time {"city":"Paris"}'],
    ['none', models.small, 'Use get_weather for Paris', 'none', ''],
    ['required', models.small, 'Hello, weather friend in Rome!', 'required', 'get_weather {"city":"Rome"}'],
    ['upstream', models.upstream, script({ do: 'call' }).text, undefined, both],
  ]) {
    it(name, async () => {
      const body = ask(model, text, { tools, tool_choice: choice });
      const finish = want ? 'tool_calls' : 'stop';
      const whole = (await client.chat.completions.create(body)).choices[0];
      assert.equal(told(whole.message), want);
      assert.equal(whole.finish_reason, finish);
      assert.equal(whole.message.content === null, want !== '');
      for (const call of whole.message.tool_calls ?? []) {
        assert.ok(call.id);
        assert.equal(call.type, 'function');
      }
      const stream = await follow(body);
      assert.equal(told({ tool_calls: stream.calls }), want);
      assert.equal(stream.finish, finish);
      assert.ok(stream.pieces >= 2 * stream.calls.length);
      const final = await client.chat.completions.stream(body).finalChatCompletion();
      assert.equal(told(final.choices[0].message), want);
    });
  }

  for (const model of [models.small, models.upstream]) {
    for (const stream of [false, true]) {
      it(`round trip on ${model}, streamed ${stream}`, async () => {
        const ran = [];
        const runnable = (name, description, result) => ({
          type: 'function',
          function: {
            ...cityTool(name, description).function,
            parse: JSON.parse,
            function: ({ city }) => {
              ran.push(`${name} ${city}`);
              return result;
            },
          },
        });
        const text = model === models.small ? "What's the weather in Paris and what time is it in Tokyo?" : script({ do: 'call' }).text;
        const runner = client.chat.completions.runTools(ask(model, text, {
          stream,
          tools: [runnable('get_weather', 'Get the weather', '{"temperature":18}'), runnable('get_time', 'Get the local time', '{"time":"09:41"}')],
        }));
        const content = await runner.finalContent();
        assert.deepEqual(ran, ['get_weather Paris', 'get_time Tokyo']);
        assert.ok(content.includes('18') && content.includes('09:41'), content);
        assert.equal(runner.allChatCompletions().length, 2);
      });
    }
  }
});

describe('errors', options, () => {
  const classes = {
    400: OpenAI.BadRequestError, 401: OpenAI.AuthenticationError, 403: OpenAI.PermissionDeniedError, 404: OpenAI.NotFoundError,
    429: OpenAI.RateLimitError, 500: OpenAI.InternalServerError, 503: OpenAI.InternalServerError,
  };
  for (const { name, key, model, text, temperature = 0, status, type, param } of refusals) {
    for (const stream of [false, true]) {
      it(`${name}, streamed ${stream}`, async () => {
        const asking = new OpenAI({ baseURL: url, apiKey: key, maxRetries: 0 }).chat.completions.create(ask(model, text, { temperature, stream }));
        await assert.rejects(asking, (error) => {
          assert.ok(error instanceof (classes[status] ?? OpenAI.APIError), error.constructor.name);
          assert.deepEqual({ status: error.status, type: error.type, code: error.code, param: error.param }, { status, type, code: status, param });
          assert.ok(error.message.length > 20, error.message);
          assert.ok(error.requestID);
          assert.equal(error.headers.get('x-should-retry') === 'false', status < 429);
          assert.equal(error.headers.has('retry-after'), status === 429 || status === 503);
          return true;
        });
      });
    }
  }

  it('unknown model in the catalog', async () => {
    await assert.rejects(client.models.retrieve('no/such-model'), OpenAI.NotFoundError);
  });

  for (const { name, model, text } of broken) {
    it(`broken stream: ${name}`, async () => {
      let content = '';
      const stream = await client.chat.completions.create(ask(model, text, { stream: true }));
      await assert.rejects(async () => {
        for await (const chunk of stream) {
          content += chunk.choices[0].delta.content ?? '';
          assert.equal(chunk.choices[0].finish_reason, null);
        }
      }, (error) => {
        assert.ok(error instanceof OpenAI.APIError, `${error.constructor.name}: ${error.message}`);
        assert.deepEqual({ type: error.type, code: error.code }, { type: 'service_unavailable', code: 503 });
        assert.ok(!error.message.includes(upstreamWords));
        return true;
      });
      assert.ok(content);
      await assert.rejects(client.chat.completions.stream(ask(model, text)).finalChatCompletion(), OpenAI.APIError);
    });
  }
});

describe('retries', options, () => {
  // One after the other: a 429 of the only target holds all its calls for a moment.
  it('recovers', async () => {
    for (const status of [503, 429]) {
      for (const stream of [false, true]) {
        const { key, text } = script({ do: 'fail', status, times: 2 });
        const body = ask(models.upstream, text);
        const content = stream ? (await follow(body)).content : (await client.chat.completions.create(body)).choices[0].message.content;
        assert.equal(content, said, `${status}, streamed ${stream}`);
        assert.equal((await calls(key)).attempts, 3);
      }
    }
  });

  for (const status of [429, 503]) {
    it(`gives up after ${status}`, async () => {
      const { fetch, sent } = countingFetch();
      const counted = new OpenAI({ baseURL: url, apiKey: keys.owner, fetch });
      await assert.rejects(counted.chat.completions.create(ask(models.small, `[[sandbox:error=${status}]]`)), { status });
      assert.equal(sent.length, 3);
      // The gateway asks for a second; left to itself the client begins with half of that.
      assert.ok(sent[1] - sent[0] >= 990, `the second attempt came after ${sent[1] - sent[0]} ms`);
    });
  }

  for (const status of [400, 401, 402, 403, 404, 413, 423]) {
    it(`does not repeat ${status}`, async () => {
      const { fetch, sent } = countingFetch();
      const counted = new OpenAI({ baseURL: url, apiKey: keys.owner, fetch });
      await assert.rejects(counted.chat.completions.create(ask(models.small, `[[sandbox:error=${status}]]`)), { status });
      assert.equal(sent.length, 1);
    });
  }

  it('does not repeat a call that may cost too much', async () => {
    const { fetch, sent } = countingFetch();
    const counted = new OpenAI({ baseURL: url, apiKey: keys.owner, fetch });
    await assert.rejects(counted.chat.completions.create(ask(models.upstream, 'Hi', { max_cost: 0 })), (error) => {
      assert.deepEqual({ status: error.status, type: error.type, param: error.param }, { status: 402, type: 'budget_exceeded', param: 'max_cost' });
      assert.deepEqual(error.error.budget.scope, { request: true });
      return true;
    });
    assert.equal(sent.length, 1);
  });
});

describe('hang-up', options, () => {
  async function ended(key, since) {
    assert.equal((await calls(key, 'ended')).canceled, true, 'the upstream call went on without a caller');
    assert.ok(Date.now() - since < atOnce, `the upstream call ended ${Date.now() - since} ms after its caller`);
  }

  it('leaving the loop', async () => {
    const { key, text } = script({ do: 'hang' });
    let left = 0;
    for await (const chunk of await client.chat.completions.create(ask(models.upstream, text, { stream: true }))) {
      if (chunk.choices[0].delta.content) {
        assert.equal(chunk.choices[0].delta.content, firstSaid);
        await calls(key, 'hangs');
        left = Date.now();
        break;
      }
    }
    assert.ok(left);
    await ended(key, left);
  });

  it('aborting a whole reply', async () => {
    const { key, text } = script({ do: 'hang' });
    const controller = new AbortController();
    const refused = assert.rejects(
      client.chat.completions.create(ask(models.upstream, text), { signal: controller.signal }),
      OpenAI.APIUserAbortError,
    );
    await calls(key, 'hangs');
    const left = Date.now();
    controller.abort();
    await ended(key, left);
    await refused;
  });

  it('aborting a stream', async () => {
    const { key, text } = script({ do: 'hang' });
    let left = 0;
    const stream = client.chat.completions.stream(ask(models.upstream, text));
    stream.on('content', async () => {
      await calls(key, 'hangs');
      left = Date.now();
      stream.abort();
    });
    await assert.rejects(stream.finalChatCompletion(), OpenAI.APIUserAbortError);
    await ended(key, left);
  });
});

describe('conversation', options, () => {
  it('reads parts and the role developer', async () => {
    const reply = await client.chat.completions.create({
      model: models.small,
      messages: [
        { role: 'developer', content: 'The capital of Freedonia is Fredville.' },
        { role: 'user', content: [{ type: 'text', text: 'What is the capital of Freedonia?' }] },
      ],
    });
    assert.ok(reply.choices[0].message.content.includes('Fredville'), reply.choices[0].message.content);
  });
});
