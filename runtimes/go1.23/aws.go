package runtime

import (
	"strings"
	"time"

	"sless.internal/runtime/early"
)

// awsEventOf builds the event of an AWS HTTP API (payload format 2.0), for handlers written for AWS Lambda.
func awsEventOf(c *call) map[string]any {
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
		"time": now.Format("02/Jan/2006:15:04:05 -0700"), "timeEpoch": float64(now.UnixMilli()),
	}
}

func anyFields(fields map[string]string) map[string]any {
	values := make(map[string]any, len(fields))
	for name, value := range fields {
		values[name] = value
	}
	return values
}
