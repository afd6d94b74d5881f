package runtime

import (
	"strings"
	"time"

	"sless.internal/runtime/early"
)

// Events of AWS API Gateway, for handlers written for AWS Lambda: REST APIs (payload format 1.0), HTTP APIs (2.0).

const (
	logTime       = "02/Jan/2006:15:04:05 -0700"
	proxyResource = "/{proxy+}"
)

// eventV1Of: absent query parameters and body are nil; of repeated headers and parameters the last value counts.
func eventV1Of(c *call) map[string]any {
	now := time.Now().UTC()
	headers := c.headerPairs()
	last := lastValues(headers)
	host, _ := last["host"].(string)
	agent, _ := last["user-agent"].(string)
	query := pairsOf(c.queryText)
	path := unquoted(c.rawPath)
	event := map[string]any{
		"version": "1.0", "resource": proxyResource, "path": path, "httpMethod": c.method,
		"headers": last, "multiValueHeaders": listFields(headers),
		"queryStringParameters": nil, "multiValueQueryStringParameters": nil,
		"pathParameters": map[string]any{"proxy": strings.TrimLeft(path, "/")}, "stageVariables": nil,
		"requestContext": map[string]any{
			"accountId": "anonymous", "apiId": early.Config.FunctionName, "domainName": host, "httpMethod": c.method,
			"identity": map[string]any{"sourceIp": c.clientIP, "userAgent": agent},
			"path":     c.rawPath, "protocol": "HTTP/" + c.version, "requestId": c.requestID,
			"requestTime": now.Format(logTime), "requestTimeEpoch": float64(now.UnixMilli()),
			"resourcePath": proxyResource, "stage": "$default",
		},
		"body": nil, "isBase64Encoded": false,
	}
	if len(query) > 0 {
		event["queryStringParameters"], event["multiValueQueryStringParameters"] = lastValues(query), listFields(query)
	}
	if len(c.body) > 0 {
		bodyFields(c.body, event)
	}
	return event
}

// headerPairs returns the caller's headers in order, with lower-case names, without X-Sless-*.
func (c *call) headerPairs() []pair {
	var pairs []pair
	for _, field := range c.headers {
		if name := strings.ToLower(field.name); !strings.HasPrefix(name, "x-sless-") {
			pairs = append(pairs, pair{name, latin1Decoded(field.value)})
		}
	}
	return pairs
}

func listFields(pairs []pair) map[string]any {
	fields := map[string]any{}
	for name, values := range allValues(pairs) {
		fields[name] = values
	}
	return fields
}

// eventV2Of: absent cookies, queryStringParameters and body are left out; headers do not contain cookies.
func eventV2Of(c *call) map[string]any {
	headers := plainHeaders(c.headers, ",")
	cookies, hasCookies := headers["cookie"]
	delete(headers, "cookie")
	event := map[string]any{
		"version": "2.0", "routeKey": "$default", "rawPath": c.rawPath, "rawQueryString": c.queryText,
		"headers": anyFields(headers), "requestContext": requestContextOf(c, headers), "isBase64Encoded": false,
	}
	if hasCookies {
		list := []any{}
		for _, cookie := range strings.Split(cookies, ";") {
			if cookie = strings.TrimSpace(cookie); cookie != "" {
				list = append(list, cookie)
			}
		}
		event["cookies"] = list
	}
	if query := textLists(allValues(pairsOf(c.queryText))); len(query) > 0 {
		joined := map[string]any{}
		for name, values := range query {
			joined[name] = strings.Join(values, ",")
		}
		event["queryStringParameters"] = joined
	}
	if len(c.body) > 0 {
		bodyFields(c.body, event)
	}
	return event
}

func requestContextOf(c *call, headers map[string]string) map[string]any {
	now := time.Now().UTC()
	domain := headers["host"]
	prefix, _, _ := strings.Cut(domain, ".")
	return map[string]any{
		"accountId": "anonymous", "apiId": early.Config.FunctionName, "domainName": domain, "domainPrefix": prefix,
		"http": map[string]any{
			"method": c.method, "path": c.rawPath, "protocol": "HTTP/" + c.version, "sourceIp": c.clientIP, "userAgent": headers["user-agent"],
		},
		"requestId": c.requestID, "routeKey": "$default", "stage": "$default",
		"time": now.Format(logTime), "timeEpoch": float64(now.UnixMilli()),
	}
}

func anyFields(fields map[string]string) map[string]any {
	values := make(map[string]any, len(fields))
	for name, value := range fields {
		values[name] = value
	}
	return values
}
