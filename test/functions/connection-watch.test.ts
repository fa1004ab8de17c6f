import { describe, expect, it } from 'vitest';
import { EmbeddedConnectionStore } from '../../shared/adapters/embedded-connection-store.ts';
import type { Change } from '../../shared/domain/change.ts';
import { desiredConnection } from '../../shared/domain/tunnel-listing.ts';
import { BusError } from '../../shared/ports/event-bus.ts';
import { FunctionWorld } from '../support/function-world.ts';
import { passingBus } from '../support/passing.ts';

const NAMESPACE = 'liqo-tenant-rome';

class Watched {
  readonly world = new FunctionWorld();
  readonly store = new EmbeddedConnectionStore(this.world.kubernetes);

  async create(...gateways: readonly string[]): Promise<void> {
    for (const gatewayName of gateways) {
      const connection = `gw-${gatewayName}`;
      const about = { namespace: NAMESPACE, connection, gatewayName, mode: 'server', remoteClusterId: 'x' } as const;
      await this.store.ensure(desiredConnection({ ...about, interfaces: [], announcedAt: this.world.now() }));
    }
    await this.world.clock.settle();
  }

  delete(name: string): void {
    this.world.kubernetes.deleteConnection({ namespace: NAMESPACE, name });
  }

  /** All that CHANGES holds, in its order. */
  changes(): string[] {
    return [...this.world.broker.messages('CHANGES')].map(({ data }) => {
      const { type, object } = JSON.parse(new TextDecoder().decode(data)) as Change;
      return `${type} ${object.metadata.name}`;
    });
  }
}

describe('connection-watch', () => {
  it('tells each change once, however many replicas watch', async () => {
    const watched = new Watched();
    for (let replica = 0; replica < 3; replica++) watched.world.start('connection-watch');
    await watched.create('a', 'b');
    watched.delete('gw-a');
    await watched.create('a');
    expect(watched.changes()).toEqual(['ADDED gw-a', 'ADDED gw-b', 'DELETED gw-a', 'ADDED gw-a']);
    expect(watched.world.count('connection-watch', 'written')).toBe(4);
  });

  it('tells after a restart what was deleted, recreated and added while nobody watched, and nothing twice', async () => {
    const watched = new Watched();
    const first = watched.world.start('connection-watch');
    await watched.create('gone', 'same', 'reborn', 'told-gone');
    watched.delete('gw-told-gone');
    await watched.world.clock.settle();
    await first.crash();
    const told = watched.changes().length;

    watched.delete('gw-gone');
    watched.delete('gw-reborn');
    await watched.create('reborn', 'new');
    await watched.world.clock.advance(600_000); // longer than any duplicate window
    for (let replica = 0; replica < 2; replica++) watched.world.start('connection-watch');
    await watched.world.clock.advance(1_000);
    expect(watched.changes().slice(told)).toEqual([
      'DELETED gw-gone',
      'DELETED gw-reborn',
      'ADDED gw-reborn',
      'ADDED gw-new',
    ]);
  });

  it('tells no change before the one ahead of it is stored', async () => {
    const watched = new Watched();
    let refusals = 5;
    watched.world.start('connection-watch', {
      bus: (bus) => ({
        ...passingBus(bus),
        publish: async (...call) => {
          if (refusals-- > 0) throw new BusError('unavailable', 'no leader');
          return bus.publish(...call);
        },
      }),
    });
    await watched.create('a', 'b', 'c');
    await watched.world.clock.advance(60_000);
    expect(watched.changes()).toEqual(['ADDED gw-a', 'ADDED gw-b', 'ADDED gw-c']);
  });

  it('is not held up by an object that no message can carry: it is counted, logged, and told again once it is smaller', async () => {
    const watched = new Watched();
    let isLarge = true;
    watched.world.start('connection-watch', {
      bus: (bus) => ({
        ...passingBus(bus),
        publish: async (message, options) => {
          if (isLarge && message.subject.endsWith('gw-b')) throw new BusError('too-large', '1048577 bytes');
          return bus.publish(message, options);
        },
      }),
    });
    await watched.create('a', 'b', 'c');
    expect(watched.changes()).toEqual(['ADDED gw-a', 'ADDED gw-c']);
    expect(watched.world.count('connection-watch', 'invalid')).toBe(1);
    isLarge = false;
    await watched.store.applyTunnel({ namespace: NAMESPACE, name: 'gw-b' }, { interfaceID: 't', value: 'Connected' });
    await watched.world.clock.settle();
    expect(watched.changes()).toEqual(['ADDED gw-a', 'ADDED gw-c', 'MODIFIED gw-b']);
  });

  it('waits for the bus before its first list: what was told before must be known', async () => {
    const watched = new Watched();
    await watched.create('a');
    let isAway = true;
    watched.world.start('connection-watch', {
      bus: (bus) => ({
        ...passingBus(bus),
        lastMessages: async (...call) => {
          if (isAway) throw new BusError('unavailable', 'away');
          return bus.lastMessages(...call);
        },
      }),
    });
    await watched.world.clock.advance(5_000);
    expect(watched.changes()).toEqual([]);
    isAway = false;
    await watched.world.clock.advance(30_000);
    expect(watched.changes()).toEqual(['ADDED gw-a']);
  });

  it('is blind while its feed is cut, and then tells what it missed', async () => {
    const watched = new Watched();
    watched.world.start('connection-watch');
    await watched.create('a', 'b');
    watched.world.kubernetes.cutFeeds('by the test');
    watched.delete('gw-a');
    await watched.create('c');
    expect(watched.changes()).toEqual(['ADDED gw-a', 'ADDED gw-b']);
    watched.world.kubernetes.restoreFeeds();
    await watched.world.clock.settle();
    expect(watched.changes().slice(2)).toEqual(['DELETED gw-a', 'ADDED gw-c']);
  });
});
