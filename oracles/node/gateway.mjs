// The gateway that the tests talk to, and the fake upstream behind it. The Go test that starts both
// says in the environment where they are.

import { randomUUID } from 'node:crypto';

function variable(name) {
  const value = process.env[name];
  if (!value) {
    throw new Error(`${name} is not set: these tests are run by "go test -run TestNode ." in oracles/`);
  }
  return value;
}

export const url = variable('GATEWAY_URL');

export const keys = {
  owner: variable('KEY_OWNER'),
  none: variable('KEY_NONE'),
  free: variable('KEY_FREE'),
  suspended: variable('KEY_SUSPENDED'),
  unknown: 'service-0123456789',
};

export const models = {
  small: variable('MODEL_SMALL'),
  large: variable('MODEL_LARGE'),
  reasoner: variable('MODEL_REASONER'),
  upstream: variable('MODEL_UPSTREAM'),
  ailing: variable('MODEL_AILING'),
  stranded: variable('MODEL_STRANDED'),
};

// strict are models of upstreams that refuse what the vendors refuse, one for each dialect.
export const strict = ['strict/chat', 'strict/responses', 'strict/messages'];

// What the upstream answers with, as written in upstream_test.go.
export const said = 'Hello, world: grüß "dich".';
export const firstSaid = 'Hello';
export const thought = 'First this, then that.';
export const answered = 'It is 42.';
export const upstreamWords = "the upstream's own words";

// script makes an order to the upstream, and the key that its calls are counted under.
export function script(order) {
  const key = randomUUID();
  return { key, text: JSON.stringify({ ...order, key }) };
}

// calls tells how the upstream's calls with a key went, once one of them hangs or has ended.
export async function calls(key, wait = '') {
  const response = await fetch(`${variable('UPSTREAM_URL')}/calls/${key}?wait=${wait}`);
  return response.json();
}

// countingFetch is a fetch that notes when each request was sent.
export function countingFetch() {
  const sent = [];
  const counting = (...args) => {
    sent.push(Date.now());
    return fetch(...args);
  };
  return { fetch: counting, sent };
}

// refusals are requests that must fail: who asks what of which model, and what comes of it.
export const refusals = [
  { name: 'temperature', text: 'Hi', temperature: 3, status: 400, type: 'invalid_request_error', param: 'temperature' },
  { name: 'unknown model', model: 'no/such-model', text: 'Hi', status: 400, type: 'invalid_request_error', param: 'model' },
  { name: 'refused upstream', model: models.upstream, text: script({ do: 'fail', status: 400 }).text, status: 400, type: 'invalid_request_error' },
  { name: 'unknown key', key: keys.unknown, text: 'Hi', status: 401, type: 'authentication_error' },
  { name: 'foreign key', key: 'sk-0123456789', text: 'Hi', status: 401, type: 'authentication_error' },
  { name: 'no plan', key: keys.none, model: models.large, text: 'Hi', status: 402, type: 'payment_required', param: 'model' },
  { name: 'low plan', key: keys.free, model: models.large, text: 'Hi', status: 403, type: 'permission_error', param: 'model' },
  { name: 'not found', text: '[[sandbox:error=404]]', status: 404, type: 'not_found_error' },
  { name: 'too large', text: 'too much '.repeat(4 << 20), status: 413, type: 'request_too_large' },
  { name: 'suspended', key: keys.suspended, text: 'Hi', status: 423, type: 'account_suspended' },
  { name: 'rate limited', text: '[[sandbox:error=429]]', status: 429, type: 'rate_limit_error' },
  { name: 'our fault', text: '[[sandbox:error=500]]', status: 500, type: 'server_error' },
  { name: 'unavailable', text: '[[sandbox:error=503]]', status: 503, type: 'service_unavailable' },
  { name: 'unreachable', model: models.stranded, text: 'Hi', status: 503, type: 'service_unavailable' },
  { name: 'upstream refuses us', model: models.ailing, text: script({ do: 'fail', status: 401 }).text, status: 503, type: 'service_unavailable' },
].map((refusal) => ({ key: keys.owner, model: models.small, ...refusal }));

// broken are requests whose streams fail after they have begun.
export const broken = [
  { name: 'sandbox', model: models.small, text: '[[sandbox:tokens=50]] [[sandbox:cut=20]]' },
  { name: 'error event', model: models.upstream, text: script({ do: 'break' }).text },
  { name: 'cut', model: models.upstream, text: script({ do: 'cut' }).text },
];

// atOnce is how long a gateway may take, in milliseconds, to end an upstream call whose caller hung up.
// The rule is one second; the rest is for a busy machine. Where other tests run besides, it only has to end.
export const atOnce = process.env.SLUICE_SOAK ? 3_000 : 60_000;

// options run the tests of a file side by side, each within a bound.
export const options = { concurrency: 16, timeout: 120_000 };
