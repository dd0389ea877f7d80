// One handler for each package: it calls what the package is for.

import { handler } from 'host-jobs';

import Anthropic from '@anthropic-ai/sdk';
import axios from 'axios';
import ky from 'ky';
import { Octokit } from '@octokit/rest';
import OpenAI from 'openai';
import { WebClient } from '@slack/web-api';
import Stripe from 'stripe';

const smoke = (name, run) => handler(name, {}, run);

smoke('anthropic-ai/sdk', async (ctx, { url }) => {
  const client = new Anthropic({ apiKey: 'k', baseURL: url, maxRetries: 0 });
  const made = await client.messages.create({ model: 'm', max_tokens: 9, messages: [{ role: 'user', content: 'hi' }] });
  return made.url;
});
smoke('axios', async (ctx, { url }) => (await axios.post(`${url}/post`, { a: 1 })).data.url);
smoke('ky', async (ctx, { url }) => (await ky.post(`${url}/post`, { json: { a: 1 } }).json()).url);
smoke('octokit/rest', async (ctx, { url }) => {
  const { data } = await new Octokit({ baseUrl: url }).rest.repos.get({ owner: 'o', repo: 'r' });
  return data.url;
});
smoke('openai', async (ctx, { url }) => {
  const client = new OpenAI({ apiKey: 'k', baseURL: url, maxRetries: 0 });
  return (await client.chat.completions.create({ model: 'm', messages: [{ role: 'user', content: 'hi' }] })).url;
});
smoke('slack/web-api', async (ctx, { url }) => {
  const { ok } = await new WebClient('t', { slackApiUrl: `${url}/`, retryConfig: { retries: 0 } }).chat.postMessage({ channel: 'c', text: 'hi' });
  return ok;
});
smoke('stripe', async (ctx, { url }) => {
  const { hostname, port } = new URL(url);
  const stripe = new Stripe('k', { host: hostname, port, protocol: 'http', maxNetworkRetries: 0 });
  return (await stripe.customers.create({ email: 'a@example.com' })).url;
});
