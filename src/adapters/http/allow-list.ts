// Which hosts an HTTP effect may reach (page 05): an allow-list, and addresses refused whatever it says.
import { BlockList, isIP } from 'node:net';

export interface AllowList {
  /** Whether the URL's host and port are listed. */
  listed(url: URL): boolean;
  /** Whether a resolved address may be connected to for that URL. */
  reachable(url: URL, address: string): boolean;
}

const never = new BlockList();
never.addSubnet('169.254.0.0', 16, 'ipv4');
never.addSubnet('0.0.0.0', 8, 'ipv4');
never.addAddress('100.100.100.200', 'ipv4');
never.addSubnet('fe80::', 10, 'ipv6');
never.addAddress('fd00:ec2::254', 'ipv6');
never.addAddress('::', 'ipv6');

const loopback = new BlockList();
loopback.addSubnet('127.0.0.0', 8, 'ipv4');
loopback.addAddress('::1', 'ipv6');

/** An allow-list of `host[:port]` entries; `loopback` adds every port of this machine. Throws on a bad entry. */
export function allowList(entries: readonly string[], options: { loopback: boolean }): AllowList {
  const hosts = new Set<string>();
  for (const entry of entries) hosts.add(checked(entry));
  const listed = (url: URL): boolean => {
    const host = url.hostname.toLowerCase();
    return hosts.has(host) || hosts.has(`${host}:${portOf(url)}`);
  };
  return {
    listed: (url) => listed(url) || (options.loopback && isLoopbackName(url)),
    reachable: (url, address) => {
      const plain = unmapped(address);
      if (blocked(never, plain)) return false;
      return listed(url) || (options.loopback && blocked(loopback, plain));
    },
  };
}

/** Splits the text of TURNSTONE_HTTP_ALLOW. */
export function parseAllow(text: string | undefined): readonly string[] {
  return (text ?? '')
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '');
}

function checked(entry: string): string {
  const url = URL.parse(`http://${entry}`);
  if (url === null || url.pathname !== '/' || url.username !== '' || entry.includes('/')) {
    throw new Error(`TURNSTONE_HTTP_ALLOW: expected host[:port], got "${entry}"`);
  }
  return entry.toLowerCase();
}

function portOf(url: URL): string {
  if (url.port !== '') return url.port;
  return url.protocol === 'https:' ? '443' : '80';
}

function isLoopbackName(url: URL): boolean {
  const host = bare(url.hostname);
  if (host === 'localhost') return true;
  return isIP(host) !== 0 && blocked(loopback, unmapped(host));
}

function bare(host: string): string {
  return host.startsWith('[') ? host.slice(1, -1) : host;
}

/** The IPv4 address inside a mapped IPv6 one, dotted or in hexadecimal. */
function unmapped(address: string): string {
  const mapped = /^::ffff:(?:(\d+\.\d+\.\d+\.\d+)|([0-9a-f]{1,4}):([0-9a-f]{1,4}))$/i.exec(address);
  if (mapped === null) return address;
  if (mapped[1] !== undefined) return mapped[1];
  const high = Number.parseInt(mapped[2] ?? '0', 16);
  const low = Number.parseInt(mapped[3] ?? '0', 16);
  return [high >> 8, high & 255, low >> 8, low & 255].join('.');
}

function blocked(list: BlockList, address: string): boolean {
  const family = isIP(address);
  return family !== 0 && list.check(address, family === 4 ? 'ipv4' : 'ipv6');
}
