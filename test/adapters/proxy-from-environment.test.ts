import { expect, test } from 'vitest';
import { proxyFromEnvironment } from '../../shared/adapters/proxy-from-environment.ts';

const HTTPS_PROXY = 'http://proxy.example:3128';
const IN_CLUSTER = 'https://10.96.0.1:443';
const NAMED = 'https://api.prod.example.com:6443';

test.each([
  { server: NAMED, environment: {}, proxy: undefined },
  { server: NAMED, environment: { HTTPS_PROXY }, proxy: HTTPS_PROXY },
  { server: NAMED, environment: { https_proxy: HTTPS_PROXY }, proxy: HTTPS_PROXY },
  { server: NAMED, environment: { HTTPS_PROXY: 'proxy.example:3128' }, proxy: HTTPS_PROXY },
  { server: NAMED, environment: { HTTP_PROXY: HTTPS_PROXY }, proxy: undefined },
  { server: 'http://api.example.com', environment: { HTTP_PROXY: HTTPS_PROXY }, proxy: HTTPS_PROXY },
  { server: 'https://127.0.0.1:6443', environment: { HTTPS_PROXY }, proxy: undefined },
  { server: 'https://localhost:6443', environment: { HTTPS_PROXY }, proxy: undefined },
  { server: 'https://[::1]:6443', environment: { HTTPS_PROXY }, proxy: undefined },
])('$server with $environment goes by $proxy', ({ server, environment, proxy }) => {
  expect(proxyFromEnvironment(server, environment)).toBe(proxy);
});

test.each([
  [IN_CLUSTER, '*', true],
  [IN_CLUSTER, '10.96.0.1', true],
  [IN_CLUSTER, '10.96.0.1:443', true],
  [IN_CLUSTER, '10.96.0.1:6443', false],
  [IN_CLUSTER, 'other, 10.96.0.0/12', true],
  [IN_CLUSTER, '10.112.0.0/12', false],
  [IN_CLUSTER, '10.96.0.0/nonsense', false],
  ['https://[fd00:10:96::1]:443', 'fd00:10::/32', true],
  ['https://[fd00:10:96::1]:443', 'fd00:10:96::1', true],
  ['https://[fd00:10:96::1]:443', '[fd00:10:96::1]:443', true],
  ['https://[fd00:10:96::1]:443', '10.0.0.0/8', false],
  [NAMED, 'api.prod.example.com', true],
  [NAMED, 'API.prod.example.com:6443', true],
  [NAMED, 'api.prod.example.com:443', false],
  [NAMED, 'example.com', true],
  [NAMED, '.example.com', true],
  [NAMED, '*.example.com', true],
  [NAMED, 'ample.com', false],
  [NAMED, '10.0.0.0/8', false],
  ['https://example.com', '.example.com', false],
])('%s with NO_PROXY=%s: direct is %s', (server, noProxy, isDirect) => {
  expect(proxyFromEnvironment(server, { HTTPS_PROXY, NO_PROXY: noProxy })).toBe(isDirect ? undefined : HTTPS_PROXY);
});

test('names the variable whose value is no URL', () => {
  expect(() => proxyFromEnvironment(NAMED, { HTTPS_PROXY: 'http://pro xy' })).toThrow(
    'HTTPS_PROXY is no URL, want http://HOST:PORT',
  );
});
