"""Clients of servers: limits, errors by kind, and transports."""

# Public names of the package, by module.
PUBLIC = {
    "azure_identity": "build_sign_in_transport create_configured_identity get_setting",
    "api_client": "ApiClient ApiRequest build_token_auth StreamRejected",
    "connection_errors": "describe_connection_error describe_request_error find_connection_error",
    "local_server": "LocalRequest LocalRequestHandler LocalResponse LocalServer",
    "parallel_calls": "call_in_parallel",
    "read_limits": "CONNECT_SECONDS PageLimits ReadByteLimit parse_json",
    "deadlines": (
        "DeadlineRunner read_deadline OperationAbandoned pause_deadline read_seconds "
        "compute_silence_limit share_deadline is_caller_waiting"
    ),
    "web_errors": "WebError check_plain_credentials find_free_port is_loopback",
    "http_client": "parse_origin SCHEMES WebRequest WebResponse send_request",
    "limited_session": "build_limited_session",
}
