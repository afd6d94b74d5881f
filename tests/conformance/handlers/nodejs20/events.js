// Shows a handler's event and context.
const fs = require('node:fs');

exports.echo = (event) => ({ event });

exports.only_event = (event) => event.n;

exports.echo_async = async (event, context) => ({ event, request_id: context.request_id });

exports.show = (event, context) => {
  const remainingMs = context.remaining_ms();
  return {
    event,
    http: shownHttp(context.http),
    context: {
      request_id: context.request_id,
      request_id_is_set: typeof context.request_id === 'string' && context.request_id !== '',
      aws_request_id: context.aws_request_id,
      message: context.message,
      function_name: context.function_name,
      namespace: context.namespace,
      version: context.version,
      function_version: context.function_version,
      invoked_function_arn: context.invoked_function_arn,
      log_group_name: context.log_group_name,
      log_stream_is_the_process: context.log_stream_name === `${context.version}/${process.pid}`,
      memory_limit_in_mb: context.memory_limit_in_mb,
      trigger: context.trigger,
      memory_mb: context.memory_mb,
      timeout_sec: context.timeout_sec,
      remaining_is_plausible: remainingMs > 20_000 && remainingMs <= 25_000,
      aws_remaining_is_plausible: context.get_remaining_time_in_millis() > 20_000 && context.get_remaining_time_in_millis() <= 25_000,
      unlimited: remainingMs === 2 ** 53 - 1,
    },
  };
};

function shownHttp(http) {
  if (http === null) return null;
  return {
    method: http.method,
    path: http.path,
    raw_path: http.raw_path,
    full_path: http.full_path,
    raw_query: http.raw_query,
    query: http.query,
    multi_query: http.multi_query,
    multi_form: http.multi_form,
    headers: http.headers,
    header_any_case: http.headers['x-cUSTOM'],
    sless_headers: Object.keys(http.headers).filter((name) => name.toLowerCase().startsWith('x-sless')),
    body_base64: http.body.toString('base64'),
    client_ip: http.client_ip,
  };
}

exports.environment = () => ({
  sless: Object.keys(process.env).filter((name) => name.startsWith('SLESS_')).sort(),
  greeting: process.env.GREETING,
  in_code_dir: process.cwd() === fs.realpathSync(__dirname),
});
