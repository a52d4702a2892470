// One origin for OpenPAI's portal and for a node, as OpenPAI's own web server makes it:
// `node proxy.mjs PORT PORTAL-URL NODE-URL`.
import http from 'node:http';

const [port, portal, node] = process.argv.slice(2);
const ofNode = /^\/(rest-server|prometheus|log-manager)\//;

http.createServer((request, response) => {
  const target = new URL(ofNode.test(request.url) ? node : portal);
  const { method, url: path, headers } = request;
  const options = { host: target.hostname, port: target.port, method, path, headers: { ...headers, host: target.host } };
  const onward = http.request(options, (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    answer.pipe(response);
  });
  onward.on('error', (error) => response.writeHead(502).end(String(error)));
  request.pipe(onward);
}).listen(Number(port), '127.0.0.1');
