// extract.mjs lists the names that an SDK's types declare, one per line: the path of a field, a variant or a value, a tab,
// and the least value that its type allows there.
//
//	node extract.mjs FOLDER NAME
//
// FOLDER has a node_modules with the packages. NAME is a list of roots below, which is a file of names/.
//
// A path is made of .member, [] for an element of an array, {tag} for an object of a union whose type or role is the tag, and
// =value for a value of an enumeration. A type is followed once, where it is nearest to the root, and elsewhere named
// by its variants.
import path from 'node:path';
import fs from 'node:fs';
import ts from 'typescript';

// Each root is: what it is, the file of its types, and the type.
const anthropic = '@anthropic-ai/sdk/resources/';
const openrouter = '@openrouter/sdk/esm/models/';
const genai = '@google/genai/dist/genai.d.ts';
const lists = {
  openai: {
    package: 'openai',
    roots: [
      ['chat request', 'openai/resources/chat/completions/completions.d.ts', 'ChatCompletionCreateParamsBase'],
      ['chat reply', 'openai/resources/chat/completions/completions.d.ts', 'ChatCompletion'],
      ['chat event', 'openai/resources/chat/completions/completions.d.ts', 'ChatCompletionChunk'],
      ['responses request', 'openai/resources/responses/responses.d.ts', 'ResponseCreateParamsBase'],
      ['responses reply', 'openai/resources/responses/responses.d.ts', 'Response'],
      ['responses event', 'openai/resources/responses/responses.d.ts', 'ResponseStreamEvent'],
      ['embeddings request', 'openai/resources/embeddings.d.ts', 'EmbeddingCreateParams'],
      ['embeddings reply', 'openai/resources/embeddings.d.ts', 'CreateEmbeddingResponse'],
      ['models reply', 'openai/resources/models.d.ts', 'Model'],
      ['videos request', 'openai/resources/videos.d.ts', 'VideoCreateParams'],
      ['videos reply', 'openai/resources/videos.d.ts', 'Video'],
      ['error reply', 'openai/resources/shared.d.ts', 'ErrorObject'],
    ],
  },
  anthropic: {
    package: '@anthropic-ai/sdk',
    roots: [
      ['messages request', anthropic + 'messages/messages.d.ts', 'MessageCreateParamsBase'],
      ['messages reply', anthropic + 'messages/messages.d.ts', 'Message'],
      ['messages event', anthropic + 'messages/messages.d.ts', 'RawMessageStreamEvent'],
      ['messages-beta request', anthropic + 'beta/messages/messages.d.ts', 'MessageCreateParamsBase'],
      ['messages-beta reply', anthropic + 'beta/messages/messages.d.ts', 'BetaMessage'],
      ['messages-beta event', anthropic + 'beta/messages/messages.d.ts', 'BetaRawMessageStreamEvent'],
      ['messages-models reply', anthropic + 'models.d.ts', 'ModelInfo'],
      ['messages-error reply', anthropic + 'shared.d.ts', 'ErrorResponse'],
    ],
  },
  openrouter: {
    package: '@openrouter/sdk',
    roots: [
      ['openrouter request', openrouter + 'chatrequest.d.ts', 'ChatRequest$Outbound'],
    ],
  },
  gemini: {
    package: '@google/genai',
    roots: [
      ['gemini request', genai, 'GenerateContentConfig'],
      ['gemini content', genai, 'Content'],
      ['gemini reply', genai, 'GenerateContentResponse'],
    ],
  },
};

const [, , folder, name] = process.argv;
const list = lists[name];
if (!list) {
  console.error(`usage: node extract.mjs FOLDER ${Object.keys(lists).join('|')}`);
  process.exit(2);
}
const modules = path.resolve(folder, 'node_modules');
const files = [...new Set(list.roots.map(([, file]) => path.join(modules, file)))];
const program = ts.createProgram(files, {
  strict: true, noEmit: true, skipLibCheck: true, target: ts.ScriptTarget.ES2022, lib: ['lib.es2022.d.ts', 'lib.dom.d.ts'],
  module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext, types: [],
});
const checker = program.getTypeChecker();

const flag = (type, f) => (type.flags & f) !== 0;
const absent = ts.TypeFlags.Null | ts.TypeFlags.Undefined | ts.TypeFlags.Void | ts.TypeFlags.Never;

// Members of a union, null and undefined left out. An enum is the union of its values.
function members(type) {
  const all = type.isUnion() ? type.types.flatMap(members) : [type];
  return all.filter((t) => !flag(t, absent));
}

// literal returns the string that a type is, if it is one.
function literal(type) {
  return type.isStringLiteral() ? type.value : undefined;
}

// open reports whether a type says nothing of its members: any, unknown, or a map with keys of the caller's own.
function open(type) {
  return flag(type, ts.TypeFlags.Any | ts.TypeFlags.Unknown | ts.TypeFlags.NonPrimitive) || (type.getProperties().length === 0 && flag(type, ts.TypeFlags.Object));
}

// ours reports whether a type was declared by the SDK. Others, such as Date, are taken for texts.
function ours(type) {
  const where = (type.symbol ?? type.aliasSymbol)?.declarations?.[0]?.getSourceFile().fileName;
  return where === undefined || where.includes('node_modules') && !where.includes('node_modules/typescript/');
}

const element = (type) => (checker.isArrayType(type) ? checker.getTypeArguments(type)[0] : undefined);
const isText = (type) => flag(type, ts.TypeFlags.StringLike) || type.isIntersection() && type.types.some(isText); // also string & {}
const isObject = (type) => flag(type, ts.TypeFlags.Object | ts.TypeFlags.Intersection) && !isText(type) && !element(type) && type.getCallSignatures().length === 0;

function properties(type) {
  return checker.getPropertiesOfType(type).filter((p) => !p.name.startsWith('_') && !(p.flags & ts.SymbolFlags.Method));
}
const typeOf = (symbol) => checker.getTypeOfSymbol(symbol);
const required = (symbol) => !(symbol.flags & ts.SymbolFlags.Optional);

// tags are what tell an object from the others of a union: several if it has several versions.
function tags(type) {
  for (const key of ['type', 'role', 'object', 'mode']) {
    const property = type.getProperty(key);
    const values = property ? members(typeOf(property)).map(literal) : [];
    if (values.length > 0 && !values.includes(undefined)) return { key, values };
  }
  return { values: [] };
}

const data = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg==';
// Texts and objects that a server checks, by the member they are in.
const texts = [
  [/^(image_url)$/, `data:image/png;base64,${data}`], [/url$/, 'https://example.com/a'], [/^file_data$/, `data:application/pdf;base64,${data}`], [/^data$/, data], [/arguments$/, '{}'],
  [/^reasoning_effort$/, 'low'], [/^type$/, 'function'], [/^tool_choice$/, 'auto'],
];
const maps = [
  [/^(parameters|schema|input_schema)$/, { type: 'object', properties: { a: { type: 'string' } } }], [/^logit_bias$/, { 1: 1 }], [/^(metadata|variables|headers)$/, { a: 'a' }],
];
const map = (member) => maps.find(([names]) => names.test(member))?.[1] ?? {};
const text = (member) => texts.find(([names]) => names.test(member))?.[1] ?? 'a';

// least returns the smallest value of a type: the required members, of a union the first text, and one element in an array.
function least(type, member, depth = 0) {
  const of = members(type);
  const first = of.find((t) => literal(t) !== undefined) ?? of.find((t) => isText(t)) ?? of[0];
  if (first === undefined) return null;
  if (literal(first) !== undefined) return literal(first);
  if (first.isNumberLiteral()) return first.value;
  if (flag(first, ts.TypeFlags.BooleanLike)) return true;
  if (flag(first, ts.TypeFlags.NumberLike)) return 1;
  if (isText(first)) return text(member);
  if (element(first)) return depth > 5 ? [] : [least(element(first), member, depth + 1)];
  if (open(first)) return map(member);
  if (!ours(first)) return text(member);
  const value = {};
  if (depth > 5) return value;
  // An object without a member would say nothing.
  const all = properties(first);
  for (const p of all.some(required) ? all.filter(required) : all.slice(0, 1)) value[p.name] = least(typeOf(p), p.name, depth + 1);
  return value;
}

// The lines by path. A beta is listed by what it adds.
const lines = new Map();
const emit = (at, value) => { if (!lines.has(at) && !lines.has(at.replace('-beta', ''))) lines.set(at, JSON.stringify(value)); };

// What a reply only gives back of the request is listed there.
const echoes = /^(gemini request systemInstruction|responses reply (instructions|tools|tool_choice)|messages-beta reply content\[\]\{compaction\}\.content)/;

// walk lists the types of a queue, breadth first, so that a type is followed where it is nearest to the root.
function walk(queue, seen) {
  for (const { type, at, member } of queue) {
    if (echoes.test(at.replace(' .', ' '))) continue;
    const of = members(type);
    const objects = of.filter((t) => isObject(t) && !open(t) && ours(t));
    for (const t of of) {
      // Names of models are no contract.
      if (literal(t) !== undefined && of.length > 1 && member !== 'model') emit(`${at}=${literal(t)}`, literal(t));
      if (element(t)) {
        if (of.length > 1 && isObject(members(element(t))[0])) emit(`${at}[]`, least(element(t), member)); // the member itself is shown as another type
        queue.push({ type: element(t), at: `${at}[]`, member });
      }
      if (objects.includes(t)) object(t, at, member, objects.length > 1 ? tags(t) : { values: [] }, queue, seen);
    }
  }
}

// object lists the members of an object, and queues their types.
function object(type, at, member, { key, values }, queue, seen) {
  for (const value of values) emit(`${at}{${value}}`, { ...least(type, member), [key]: value });
  if (seen.has(type)) return;
  seen.add(type);
  const here = values.length > 0 ? `${at}{${values[0]}}` : at;
  for (const p of properties(type)) {
    if (p.name === key) continue;
    emit(`${here}.${p.name}`, least(typeOf(p), p.name));
    queue.push({ type: typeOf(p), at: `${here}.${p.name}`, member: p.name });
  }
}

// A reply and its events share types: what is listed of the one is not repeated for the other.
const seen = {};
for (const [what, file, root] of list.roots) {
  const source = program.getSourceFile(path.join(modules, file));
  const symbol = source && (checker.getExportsOfModule(source.symbol).find((s) => s.name === root) ?? source.locals.get(root));
  if (!symbol) {
    console.error(`${list.package} has no ${root} in ${file}: find what it is called now`);
    process.exit(1);
  }
  const shared = what.replace(' event', ' reply');
  walk([{ type: checker.getDeclaredTypeOfSymbol(symbol), at: `${what} `, member: '' }], (seen[shared] ??= new Set()));
}
const version = JSON.parse(fs.readFileSync(path.join(modules, list.package, 'package.json'), 'utf8')).version;
console.log(`# ${list.package} ${version}`);
for (const [at, value] of lines) console.log(`${at.replace(/^(\S+ \S+) \./, '$1 ')}\t${value}`);
