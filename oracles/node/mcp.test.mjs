// The npm package @modelcontextprotocol/sdk, the TypeScript client, against the gateway's own MCP server.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { atOnce, calls, keys, models, options, script, url } from './gateway.mjs';

const address = new URL('/mcp', url);

// connect opens a session. Having listed the tools, the client holds every result against its schema.
async function connect(key = keys.owner) {
  const client = new Client({ name: 'oracle', version: '1' });
  const transport = new StreamableHTTPClientTransport(address, { requestInit: { headers: { Authorization: `Bearer ${key}` } } });
  await client.connect(transport);
  const { tools } = await client.listTools();
  return { client, transport, tools };
}

const ask = (model, text, more = {}) => ({ name: 'chat_completion', arguments: { model, messages: [{ role: 'user', content: text }], ...more } });

describe('mcp server', options, () => {
  it('tools', async () => {
    const { client, tools } = await connect();
    assert.deepEqual(tools.map((tool) => tool.name).sort(), ['chat_completion', 'list_models', 'model_analytics']);
    assert.equal(client.getServerVersion().name, 'sluice');

    const { structuredContent: list } = await client.callTool({ name: 'list_models', arguments: {} });
    assert.ok(list.data.some((model) => model.id === models.small));

    const reply = await client.callTool(ask(models.small, 'Reverse the word stream.', { temperature: 0 }));
    assert.equal(reply.structuredContent.choices[0].finish_reason, 'stop');
    assert.match(reply.structuredContent.id, /^chatcmpl-/);
    assert.deepEqual(JSON.parse(reply.content[0].text), reply.structuredContent);

    const { structuredContent: analytics } = await client.callTool({ name: 'model_analytics', arguments: { window: '1h' } });
    assert.ok(analytics.models.find((model) => model.model === models.small).requests >= 1);
    assert.ok(analytics.service.models.some((model) => model.model === models.small && model.status === 'operational'));
    await client.close();
  });

  it('progress', async () => {
    const { client } = await connect();
    const text = '[[sandbox:chunk_delay=20ms]] Repeat "grüß dich — 日本語 🎈, one two three four five six seven eight nine ten"';
    const told = [];
    const streamed = await client.callTool(ask(models.small, text), undefined, { onprogress: (progress) => told.push(progress) });
    const whole = await client.callTool(ask(models.small, text));
    const [{ message }] = streamed.structuredContent.choices;
    assert.deepEqual(message, whole.structuredContent.choices[0].message);
    assert.deepEqual(streamed.structuredContent.usage, whole.structuredContent.usage);
    assert.ok(told.length >= 3, `${told.length} notifications`);
    assert.ok(told.every(({ progress }, i) => i === 0 || progress > told[i - 1].progress));
    assert.equal(told.map((progress) => progress.message ?? '').join(''), message.content);
    await client.close();
  });

  it('function calls', async () => {
    const { client } = await connect();
    const request = ask(models.small, 'What is the weather in Paris?', {
      tools: [{ type: 'function', function: { name: 'get_weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } } }],
      tool_choice: 'required',
    });
    for (const more of [undefined, { onprogress: () => {} }]) {
      const { structuredContent } = await client.callTool(request, undefined, more);
      const [{ message, finish_reason: reason }] = structuredContent.choices;
      assert.equal(reason, 'tool_calls');
      assert.equal(message.tool_calls[0].function.name, 'get_weather');
      assert.equal(typeof JSON.parse(message.tool_calls[0].function.arguments), 'object');
    }
    await client.close();
  });

  for (const [name, request, key, code, words] of [
    ['no plan', ask(models.large, 'Hi'), keys.none, 402, /needs/],
    ['low plan', ask(models.large, 'Hi'), keys.free, 403, /needs the/],
    ['unknown model', ask('no/such-model', 'Hi'), keys.owner, 400, /There is no model/],
    ['limited', ask(models.small, '[[sandbox:error=429]]'), keys.owner, 429, /status 429/],
    ['unavailable', ask(models.stranded, 'Hi'), keys.owner, 503, /./],
    ['window', { name: 'model_analytics', arguments: { window: 'a week' } }, keys.owner, 400, /window must be/],
  ]) {
    it(`tool error: ${name}`, async () => {
      const { client } = await connect(key);
      const reply = await client.callTool(request);
      assert.equal(reply.isError, true);
      assert.match(reply.content[0].text, words);
      assert.equal(reply._meta.error.code, code);
      assert.equal(reply._meta.error.message, reply.content[0].text);
      await client.close();
    });
  }

  for (const [name, key, status] of [['unknown key', keys.unknown, 401], ['foreign key', 'sk-1', 401], ['suspended', keys.suspended, 423]]) {
    it(name, async () => {
      await assert.rejects(connect(key), (error) => error.code === status && /"error":/.test(error.message));
    });
  }

  for (const [name, end] of [
    ['a canceled call', ({ controller }) => controller.abort()],
    ['a closed client', ({ client }) => client.close()],
    ['an ended session', ({ transport }) => transport.terminateSession()],
  ]) {
    for (const more of [{}, { onprogress: () => {} }]) {
      it(`${name} cancels the model${more.onprogress ? ', with progress' : ''}`, async () => {
        const { client, transport } = await connect();
        const { key, text } = script({ do: 'hang' });
        const controller = new AbortController();
        const settled = client.callTool(ask(models.upstream, text), undefined, { ...more, signal: controller.signal }).catch((error) => error);
        await calls(key, 'hangs');
        const left = Date.now();
        await end({ client, transport, controller });
        assert.equal((await calls(key, 'ended')).canceled, true, 'the upstream call went on');
        assert.ok(Date.now() - left < atOnce, `the upstream call ended ${Date.now() - left} ms after its caller`);
        await settled;
        await client.close();
      });
    }
  }
});
