// Two turns with tools by the official clients, through each door, with upstreams that are as strict as the vendors.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import { betaTool } from '@anthropic-ai/sdk/helpers/beta/json-schema';
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, run, setTracingDisabled, tool as agentTool } from '@openai/agents';
import { generateText, stepCountIs, streamText, tool } from 'ai';
import OpenAI from 'openai';
import { z } from 'zod';
import { countingFetch, keys, options, strict, url } from './gateway.mjs';

globalThis.AI_SDK_LOG_WARNINGS = false;
setTracingDisabled(true);

// The model calls both tools at once, and reports what they return.
const question = 'What is the weather?';
const report = 'The results: Sunny, Noon.';
const place = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'], additionalProperties: false };
const nothing = { type: 'object', properties: {}, additionalProperties: false };
const sunny = async ({ city }) => (city === 'Paris' ? 'Sunny' : `no ${city}`);
const noon = async () => 'Noon';

// clients ask twice, in one conversation, and return what they were told. All of them use the fetch that they get.
const clients = {
  'openai, chat': async (model, fetch) => {
    const client = new OpenAI({ baseURL: url, apiKey: keys.owner, fetch, maxRetries: 0 });
    const tools = [
      { type: 'function', function: { name: 'get_weather', parse: JSON.parse, parameters: place, function: sunny } },
      { type: 'function', function: { name: 'get_time', parse: JSON.parse, parameters: nothing, function: noon } },
    ];
    const first = client.chat.completions.runTools({ model, messages: [{ role: 'user', content: question }], tools });
    const told = [await first.finalContent()];
    const second = client.chat.completions.runTools({ model, stream: true, messages: [...first.messages, { role: 'user', content: question }], tools });
    return [...told, await second.finalContent()];
  },
  'openai, responses': async (model, fetch) => {
    const client = new OpenAI({ baseURL: url, apiKey: keys.owner, fetch, maxRetries: 0 });
    const tools = [
      { type: 'function', name: 'get_weather', parameters: place, strict: true },
      { type: 'function', name: 'get_time', parameters: nothing, strict: true },
    ];
    const told = [];
    let input = [{ role: 'user', content: question }];
    let previous_response_id;
    while (told.length < 2) {
      const reply = await client.responses.create({ model, input, tools, previous_response_id, reasoning: { effort: 'high' } });
      const made = reply.output.filter((item) => item.type === 'function_call');
      previous_response_id = reply.id;
      input = await Promise.all(made.map(async (item) => ({ type: 'function_call_output', call_id: item.call_id, output: await { get_weather: sunny, get_time: noon }[item.name](JSON.parse(item.arguments)) })));
      if (made.length === 0) {
        told.push(reply.output_text);
        input = [{ role: 'user', content: question }];
      }
    }
    return told;
  },
  'anthropic, tool runner': async (model, fetch) => {
    const client = new Anthropic({ baseURL: url.replace(/\/v1$/, ''), apiKey: keys.owner, fetch, maxRetries: 0 });
    const tools = [
      betaTool({ name: 'get_weather', description: 'The weather', inputSchema: place, run: sunny }),
      betaTool({ name: 'get_time', description: 'The time', inputSchema: nothing, run: noon }),
    ];
    const text = (message) => message.content.filter((b) => b.type === 'text').map((b) => b.text).join('');
    const first = client.beta.messages.toolRunner({ model, max_tokens: 1000, messages: [{ role: 'user', content: question }], tools });
    const reply = await first.runUntilDone();
    const second = client.beta.messages.toolRunner({
      model, max_tokens: 1000, tools, messages: [...first.params.messages, { role: 'user', content: question }],
    });
    return [text(reply), text(await second.runUntilDone())];
  },
  'AI SDK, chat': (model, fetch) => sdk(createOpenAICompatible({ name: 'sluice', baseURL: url, apiKey: keys.owner, fetch })(model)),
  'AI SDK, responses': (model, fetch) => sdk(createOpenAI({ baseURL: url, apiKey: keys.owner, fetch }).responses(model)),
  'AI SDK, messages': (model, fetch) => sdk(createAnthropic({ baseURL: url, apiKey: keys.owner, fetch })(model)),
  'agents, responses': (model, fetch) => agent(new OpenAIResponsesModel(new OpenAI({ baseURL: url, apiKey: keys.owner, fetch, maxRetries: 0 }), model)),
  'agents, chat': (model, fetch) => agent(new OpenAIChatCompletionsModel(new OpenAI({ baseURL: url, apiKey: keys.owner, fetch, maxRetries: 0 }), model)),
};

async function sdk(model) {
  const tools = {
    get_weather: tool({ inputSchema: z.object({ city: z.string() }), execute: sunny }),
    get_time: tool({ inputSchema: z.object({}), execute: noon }),
  };
  const messages = [{ role: 'user', content: question }];
  const whole = await generateText({ model, tools, messages, stopWhen: stepCountIs(4), maxRetries: 0 });
  messages.push(...whole.steps.flatMap((step) => step.response.messages), { role: 'user', content: question });
  const stream = streamText({ model, tools, messages, stopWhen: stepCountIs(4), maxRetries: 0 });
  return [whole.text, await stream.text];
}

async function agent(model) {
  const helper = new Agent({
    name: 'Helper', model,
    tools: [
      agentTool({ name: 'get_weather', description: 'The weather', parameters: z.object({ city: z.string() }), execute: sunny }),
      agentTool({ name: 'get_time', description: 'The time', parameters: z.object({}), execute: noon }),
    ],
  });
  const first = await run(helper, question);
  const second = await run(helper, [...first.history, { role: 'user', content: question }]);
  return [first.finalOutput, second.finalOutput];
}

describe('two turns with tools', options, () => {
  for (const [name, ask] of Object.entries(clients)) {
    for (const model of strict) {
      it(`${name} at ${model}`, async () => {
        const counted = countingFetch();
        assert.deepEqual(await ask(model, counted.fetch), [report, report]);
        // None was sent again, but for the continuation of a thread in each turn: no upstream here holds one, and the runner replays it.
        assert.equal(counted.sent.length, name === 'anthropic, tool runner' ? 6 : 4);
      });
    }
  }
});
