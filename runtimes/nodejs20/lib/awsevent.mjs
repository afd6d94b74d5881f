// Builds the event of an AWS HTTP API (payload format 2.0), for handlers written for AWS Lambda.
import { plainHeaders } from './context.mjs';
import { allValues, bodyFields, pairsOf } from './fields.mjs';

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

/** `31/Jan/2026:09:26:53 +0000` */
function logTimeOf(date) {
  const iso = date.toISOString();
  return `${iso.slice(8, 10)}/${MONTHS[date.getUTCMonth()]}/${iso.slice(0, 4)}:${iso.slice(11, 19)} +0000`;
}

function requestContextOf(call, headers, settings) {
  const now = new Date();
  const domainName = headers.host ?? '';
  return {
    accountId: 'anonymous',
    apiId: settings.functionName,
    domainName,
    domainPrefix: domainName.split('.')[0],
    http: {
      method: call.method,
      path: call.rawPath,
      protocol: `HTTP/${call.httpVersion}`,
      sourceIp: call.clientIp,
      userAgent: headers['user-agent'] ?? '',
    },
    requestId: call.requestId,
    routeKey: '$default',
    stage: '$default',
    time: logTimeOf(now),
    timeEpoch: now.getTime(),
  };
}

/** The event of an HTTP call in this format. */
export function awsEventOf(call, settings) {
  const { cookie, ...headers } = plainHeaders(call.rawHeaders, ',');
  const event = {
    version: '2.0',
    routeKey: '$default',
    rawPath: call.rawPath,
    rawQueryString: call.queryText,
    headers,
    requestContext: requestContextOf(call, headers, settings),
    isBase64Encoded: false,
  };
  if (cookie !== undefined) event.cookies = cookie.split(/;\s*/).filter(Boolean);
  const query = Object.entries(allValues(pairsOf(call.queryText)));
  if (query.length > 0) event.queryStringParameters = Object.fromEntries(query.map(([name, values]) => [name, values.join(',')]));
  if (call.body.length > 0) Object.assign(event, bodyFields(call.body));
  return event;
}
