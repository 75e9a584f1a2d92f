// SPDX-License-Identifier: Apache-2.0
/** What only Node has: a daemon's unix socket. */
import { request } from "node:http";
import { Readable } from "node:stream";
import type { ReadableStream as NodeStream } from "node:stream/web";

/**
 * A fetch that asks the unix socket at PATH, whatever host the URL names:
 *
 *     new Client({ url: "http://vial", fetch: unixFetch("/run/vial/vial.sock") })
 */
export function unixFetch(path: string): typeof fetch {
  return async (input, init = {}) => {
    const url = new URL(input instanceof Request ? input.url : String(input));
    const sent = new Request(url, init);
    const body = init.body ? new Uint8Array(await sent.arrayBuffer()) : undefined;
    return new Promise((resolve, reject) => {
      const asked = request(
        {
          socketPath: path, path: url.pathname + url.search, method: sent.method,
          headers: { ...Object.fromEntries(sent.headers), host: url.host,
            ...(body || sent.method === "POST" || sent.method === "PUT"
              ? { "content-length": String(body?.length ?? 0) } : {}) },
        },
        (answer) => {
          const headers = new Headers();
          for (let i = 0; i + 1 < answer.rawHeaders.length; i += 2)
            headers.append(answer.rawHeaders[i]!, answer.rawHeaders[i + 1]!);
          const status = answer.statusCode ?? 500;
          const isEmpty = status === 204 || status === 304;
          if (isEmpty) answer.resume();
          resolve(new Response(isEmpty ? null : (Readable.toWeb(answer) as NodeStream as ReadableStream),
            { status, headers }));
        });
      const stop = () => asked.destroy(init.signal?.reason as Error);
      asked.on("error", reject);
      asked.on("close", () => init.signal?.removeEventListener("abort", stop));
      if (init.signal?.aborted) stop();
      else init.signal?.addEventListener("abort", stop, { once: true });
      asked.end(body);
    });
  };
}
