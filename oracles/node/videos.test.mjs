// The videos of the npm package openai against the gateway.

import assert from 'node:assert/strict';
import { setTimeout } from 'node:timers/promises';
import { describe, it } from 'node:test';
import OpenAI, { toFile } from 'openai';
import { keys, options, url } from './gateway.mjs';

const client = new OpenAI({ baseURL: url, apiKey: keys.owner, maxRetries: 0 });
const other = new OpenAI({ baseURL: url, apiKey: keys.free, maxRetries: 0 });
const clip = { prompt: 'a lighthouse at dusk', size: '480x480', seconds: '1' };

describe('openai', options, () => {
  it('create, retrieve, list, download, delete', async () => {
    let video = await client.videos.create(clip);
    assert.equal(video.object, 'video');
    assert.equal(video.model, 'video-default');
    assert.equal(video.completed_at, null);
    assert.equal(video.error, null);
    while (video.status === 'queued' || video.status === 'in_progress') {
      await setTimeout(100);
      video = await client.videos.retrieve(video.id);
    }
    assert.equal(video.status, 'completed');
    assert.equal(video.progress, 100);
    assert.equal(video.size, clip.size);
    assert.equal(video.seconds, clip.seconds);
    assert.equal(video.expires_at - video.completed_at, 24 * 60 * 60);

    const listed = [];
    for await (const one of client.videos.list({ limit: 1 })) listed.push(one.id);
    assert.deepEqual(listed, [video.id]);

    const file = Buffer.from(await (await client.videos.downloadContent(video.id)).arrayBuffer());
    assert.equal(file.toString('latin1', 4, 8), 'ftyp');

    await assert.rejects(other.videos.retrieve(video.id), OpenAI.NotFoundError);
    await assert.rejects(other.videos.delete(video.id), OpenAI.NotFoundError);
    assert.deepEqual(await client.videos.delete(video.id), { id: video.id, object: 'video.deleted', deleted: true });
    await assert.rejects(client.videos.retrieve(video.id), OpenAI.NotFoundError);
  });

  for (const [name, body, param] of [
    ['no prompt', { size: '480x480' }, 'prompt'],
    ['another model', { ...clip, model: 'sora-2' }, 'model'],
    ['a size that there is not', { ...clip, size: '1792x1024' }, 'size'],
    ['a picture', async () => ({ ...clip, input_reference: await toFile(Buffer.from('x'), 'x.png', { type: 'image/png' }) }), 'input_reference'],
    ['a link to a picture', { ...clip, input_reference: { image_url: 'https://example.com/x.png' } }, 'input_reference'],
  ]) {
    it(name, async () => {
      await assert.rejects(client.videos.create(typeof body === 'function' ? await body() : body), (error) =>
        error instanceof OpenAI.BadRequestError && error.param === param);
    });
  }
});
