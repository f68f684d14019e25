// A receiver of webhooks that fails in every way at first, and verifies what it gets with the reference library.
// PUT /secrets/NAME sets the secret of /hook/NAME, and GET /report tells what has arrived.
import http from "node:http";
import { Webhook } from "standardwebhooks";

const secrets = {};
const report = { messages: {}, bad: [] };

// What becomes of a message when it arrives for the first time. Each way but the last makes the sender try again; "lost"
// is a message that was accepted and whose sender never learns of it.
const ways = [500, 503, 302, "cut", "lost", 200];
let arrived = 0;

async function read(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  return Buffer.concat(parts).toString("utf8");
}

function refuses(hook, body, headers, what) {
  try {
    hook.verify(body, headers);
  } catch {
    return;
  }
  report.bad.push("the library accepts " + what);
}

function receive(name, body, headers, response) {
  const id = headers["webhook-id"];
  const hook = new Webhook(secrets[name]);
  let event;
  try {
    event = hook.verify(body, headers);
  } catch (error) {
    report.bad.push(`${id}: ${error.message}`);
  }
  refuses(hook, body + " ", headers, "another body");
  refuses(hook, body, { ...headers, "webhook-id": id + "x" }, "another id");
  const message = (report.messages[id] ??= { name, type: event?.type, body, times: 0, accepted: 0 });
  if (message.body !== body || message.name !== name) report.bad.push(`${id} is two messages`);
  const way = message.times++ === 0 ? ways[arrived++ % ways.length] : 204;
  if (way === "cut") return response.destroy();
  if (way === "lost") {
    message.accepted++;
    return response.destroy();
  }
  if (way < 300) message.accepted++;
  response.writeHead(way, { "Retry-After": "1", Location: "/hook/elsewhere" });
  response.end("as told");
}

const server = http.createServer(async (request, response) => {
  const [, kind, name] = request.url.split("/");
  const body = await read(request);
  if (kind === "hook") return receive(name, body, request.headers, response);
  if (kind === "secrets") secrets[name] = body;
  response.end(kind === "report" ? JSON.stringify(report) : "");
});
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}`));
