// Builds the events of AWS API Gateway, for handlers written for AWS Lambda: REST APIs (payload format 1.0), HTTP APIs (2.0).
import { anyCase, headerPairs, plainHeaders } from './context.mjs';
import { allValues, bodyFields, lastValues, pairsOf, unquoted } from './fields.mjs';

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

function orNull(fields) {
  return Object.keys(fields).length > 0 ? fields : null;
}

/** Absent query parameters and body are null; of repeated headers and parameters the last value counts. */
function eventV1Of(call, settings) {
  const now = new Date();
  const headers = headerPairs(call.rawHeaders);
  const path = unquoted(call.rawPath);
  const query = pairsOf(call.queryText);
  const lastHeaders = lastValues(headers);
  return {
    version: '1.0',
    resource: '/{proxy+}',
    path,
    httpMethod: call.method,
    headers: anyCase(lastHeaders),
    multiValueHeaders: anyCase(allValues(headers)),
    queryStringParameters: orNull(lastValues(query)),
    multiValueQueryStringParameters: orNull(allValues(query)),
    pathParameters: { proxy: path.replace(/^\/+/, '') },
    stageVariables: null,
    requestContext: {
      accountId: 'anonymous',
      apiId: settings.functionName,
      domainName: lastHeaders.host ?? '',
      httpMethod: call.method,
      identity: { sourceIp: call.clientIp, userAgent: lastHeaders['user-agent'] ?? '' },
      path: call.rawPath,
      protocol: `HTTP/${call.httpVersion}`,
      requestId: call.requestId,
      requestTime: logTimeOf(now),
      requestTimeEpoch: now.getTime(),
      resourcePath: '/{proxy+}',
      stage: '$default',
    },
    ...(call.body.length > 0 ? { isBase64Encoded: false, ...bodyFields(call.body) } : { body: null, isBase64Encoded: false }),
  };
}

/** Absent cookies, queryStringParameters and body are left out; `headers` does not contain cookies. */
function eventV2Of(call, settings) {
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

export const AWS_EVENTS = { 'aws-http-v1': eventV1Of, 'aws-http-v2': eventV2Of };
