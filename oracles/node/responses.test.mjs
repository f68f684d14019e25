// Clients of the Responses dialect against the gateway: openai, the AI SDK, the Agents SDK and LangChain.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { createOpenAI } from '@ai-sdk/openai';
import { HumanMessage, ToolMessage } from '@langchain/core/messages';
import { tool as langchainTool } from '@langchain/core/tools';
import { ChatOpenAI } from '@langchain/openai';
import { Agent, OpenAIResponsesModel, run, setTracingDisabled, tool as agentTool } from '@openai/agents';
import { generateObject, generateText, stepCountIs, streamText, tool } from 'ai';
import OpenAI from 'openai';
import { zodTextFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import { keys, models, said, script, thought, url } from './gateway.mjs';

const client = new OpenAI({ baseURL: url, apiKey: keys.owner, maxRetries: 0 });
const small = models.small;
const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'], additionalProperties: false };
const weather = { type: 'function', name: 'get_weather', description: 'Get the weather of a city', parameters, strict: true };
const question = 'What is the weather in Rome? Use get_weather.';

describe('openai', () => {
  it('creates a response', async () => {
    const r = await client.responses.create({ model: small, instructions: 'Be brief.', input: 'Say hello.', metadata: { a: 'b' } });
    assert.equal(r.status, 'completed');
    assert.match(r.output_text, /hello/i);
    assert.equal(r.model, small);
    assert.equal(r.instructions, 'Be brief.');
    assert.deepEqual(r.metadata, { a: 'b' });
    assert.equal(r.usage.total_tokens, r.usage.input_tokens + r.usage.output_tokens);
    assert.equal(r.error, null);
    assert.equal(r.incomplete_details, null);
    const same = await client.responses.retrieve(r.id);
    assert.deepEqual(same.output, r.output);
    const items = await client.responses.inputItems.list(r.id);
    assert.equal(items.data[0].content[0].text, 'Say hello.');
    await client.responses.delete(r.id);
    await assert.rejects(client.responses.retrieve(r.id), (err) => err.status === 404);
  });

  it('streams', async () => {
    const stream = client.responses.stream({ model: models.upstream, input: script({ do: 'say' }).text });
    const types = [];
    let text = '';
    let sequence = 0;
    for await (const event of stream) {
      assert.equal(event.sequence_number, sequence++);
      types.push(event.type);
      if (event.type === 'response.output_text.delta') {
        text += event.delta;
      }
    }
    assert.equal(text, said);
    assert.deepEqual(types.slice(0, 4), ['response.created', 'response.in_progress', 'response.output_item.added', 'response.content_part.added']);
    assert.deepEqual(types.slice(-4), ['response.output_text.done', 'response.content_part.done', 'response.output_item.done', 'response.completed']);
    const final = await stream.finalResponse();
    assert.equal(final.output_text, said);
  });

  it('reasons', async () => {
    const stream = client.responses.stream({
      model: models.upstream, input: script({ do: 'think' }).text, store: false, include: ['reasoning.encrypted_content'], reasoning: { effort: 'low', summary: 'auto' },
    });
    const final = await stream.finalResponse();
    const [reasoning, message] = final.output;
    assert.equal(reasoning.type, 'reasoning');
    assert.equal(reasoning.summary[0].text, thought);
    assert.ok(reasoning.encrypted_content.length > 20);
    assert.equal(message.type, 'message');
    const again = await client.responses.create({ model: small, store: false, input: [{ role: 'user', content: 'Hi' }, ...final.output, { role: 'user', content: 'Say hello.' }] });
    assert.equal(again.status, 'completed');
  });

  it('parses what fits a schema', async () => {
    const r = await client.responses.parse({ model: small, input: 'Extract: gate 4.', text: { format: zodTextFormat(z.object({ gate: z.number() }), 'reading') } });
    assert.equal(typeof r.output_parsed.gate, 'number');
  });

  it('calls tools and goes on by id', async () => {
    const first = await client.responses.create({ model: small, input: question, tools: [weather] });
    const calls = first.output.filter((item) => item.type === 'function_call');
    assert.ok(calls.length > 0);
    assert.equal(JSON.parse(calls[0].arguments).city, 'Rome');
    const second = await client.responses.create({
      model: small, tools: [weather], previous_response_id: first.id,
      input: calls.map((call) => ({ type: 'function_call_output', call_id: call.call_id, output: 'sunny' })),
    });
    assert.equal(second.previous_response_id, first.id);
    assert.equal(second.output.at(-1).type, 'message');
    assert.ok(second.usage.input_tokens > first.usage.input_tokens);
  });

  it('streams calls', async () => {
    const stream = client.responses.stream({ model: small, input: question, tools: [weather] });
    let deltas = '';
    for await (const event of stream) {
      if (event.type === 'response.function_call_arguments.delta' && event.output_index === 0) {
        deltas += event.delta;
      }
    }
    const final = await stream.finalResponse();
    assert.equal(final.output[0].arguments, deltas);
  });

  it('goes on with a conversation', async () => {
    let previous;
    let tokens = 0;
    for (const text of ['Say one.', 'Say two.', 'Say three.']) {
      const r = await client.responses.create({ model: small, input: text, previous_response_id: previous });
      assert.ok(r.usage.input_tokens > tokens);
      tokens = r.usage.input_tokens;
      previous = r.id;
    }
    await assert.rejects(client.responses.create({ model: small, input: 'x', previous_response_id: 'resp_unknown' }),
      (err) => err.status === 400 && err.param === 'previous_response_id');
  });

  it('is told what is wrong', async () => {
    await assert.rejects(client.responses.create({ model: small, input: [{ role: 'user', content: [{ type: 'nope' }] }] }),
      (err) => err.status === 400 && err.param === 'input[0].content[0].type');
    await assert.rejects(client.responses.create({ model: small, input: 'x', background: true }), (err) => err.status === 400 && err.param === 'background');
    const cut = await client.responses.create({ model: small, input: '[[sandbox:tokens=50]] Go on.', max_output_tokens: 5 });
    assert.equal(cut.status, 'incomplete');
    assert.equal(cut.incomplete_details.reason, 'max_output_tokens');
  });

  it('sees that a stream broke off', async () => {
    const types = [];
    for await (const event of await client.responses.create({ model: small, input: '[[sandbox:cut=3]][[sandbox:tokens=20]] Go on.', stream: true })) {
      types.push(event.type);
    }
    assert.equal(types.at(-1), 'response.failed');
    assert.ok(!types.includes('response.completed'));
  });
});

describe('AI SDK', () => {
  const provider = createOpenAI({ baseURL: url, apiKey: keys.owner });
  const tools = { get_weather: tool({ description: 'Get the weather of a city', inputSchema: z.object({ city: z.string() }), execute: async ({ city }) => `sunny in ${city}` }) };

  it('generates text', async () => {
    const r = await generateText({ model: provider(small), prompt: 'Say hello.' });
    assert.match(r.text, /hello/i);
    assert.equal(r.finishReason, 'stop');
    assert.ok(r.usage.totalTokens > 0);
  });

  it('streams text', async () => {
    const r = streamText({ model: provider(models.upstream), prompt: script({ do: 'say' }).text });
    let text = '';
    for await (const piece of r.textStream) {
      text += piece;
    }
    assert.equal(text, said);
  });

  it('runs tools over several steps', async () => {
    for (const store of [true, false]) {
      const r = await generateText({ model: provider(small), prompt: question, tools, stopWhen: stepCountIs(4), providerOptions: { openai: { store } } });
      assert.equal(r.steps[0].toolCalls[0].toolName, 'get_weather');
      assert.equal(r.steps.at(-1).finishReason, 'stop');
      assert.ok(r.text.length > 0);
    }
    const streamed = streamText({ model: provider(small), prompt: question, tools, stopWhen: stepCountIs(4) });
    assert.ok((await streamed.text).length > 0);
  });

  it('generates objects', async () => {
    const r = await generateObject({ model: provider(small), schema: z.object({ gate: z.number() }), prompt: 'Extract: gate 4.' });
    assert.equal(typeof r.object.gate, 'number');
  });

  it('goes on with a conversation', async () => {
    const first = await generateText({ model: provider(small), prompt: 'Say hello.' });
    const second = await generateText({ model: provider(small), messages: [{ role: 'user', content: 'Say hello.' }, ...first.response.messages, { role: 'user', content: 'Say goodbye.' }] });
    assert.match(second.text, /goodbye/i);
  });
});

describe('Agents SDK', () => {
  setTracingDisabled(true);

  it('runs an agent with a tool', async () => {
    const asked = [];
    const agent = new Agent({
      name: 'Forecaster', instructions: 'Answer briefly.', model: new OpenAIResponsesModel(client, small),
      tools: [agentTool({ name: 'get_weather', description: 'Get the weather of a city', parameters: z.object({ city: z.string() }), execute: async ({ city }) => { asked.push(city); return 'sunny'; } })],
    });
    const whole = await run(agent, question);
    assert.ok(whole.finalOutput.length > 0);
    assert.ok(asked.includes('Rome'));
    const streamed = await run(agent, question, { stream: true });
    await streamed.completed;
    assert.ok(streamed.finalOutput.length > 0);
    const next = await run(agent, 'Say goodbye.', { previousResponseId: whole.lastResponseId });
    assert.ok(next.finalOutput.length > 0);
  });
});

describe('LangChain', () => {
  const model = new ChatOpenAI({ model: small, useResponsesApi: true, apiKey: keys.owner, configuration: { baseURL: url } });

  it('invokes, streams and calls tools', async () => {
    const r = await model.invoke('Say hello.');
    assert.match(r.text, /hello/i);
    let text = '';
    for await (const chunk of await model.stream('Say hello.')) {
      text += chunk.text;
    }
    assert.match(text, /hello/i);
    const forecast = langchainTool(async ({ city }) => `sunny in ${city}`, { name: 'get_weather', description: 'Get the weather of a city', schema: z.object({ city: z.string() }) });
    const bound = model.bindTools([forecast]);
    const ask = new HumanMessage(question);
    const first = await bound.invoke([ask]);
    assert.equal(first.tool_calls[0].name, 'get_weather');
    const results = first.tool_calls.map((call) => new ToolMessage({ tool_call_id: call.id, content: 'sunny' }));
    const second = await bound.invoke([ask, first, ...results]);
    assert.ok(second.text.length > 0);
    const object = await model.withStructuredOutput(z.object({ gate: z.number() })).invoke('Extract: gate 4.');
    assert.equal(typeof object.gate, 'number');
  });
});
