# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

import time
from pathlib import Path

import pytest

from ansible_collections.gb10.serving.plugins.module_utils import _redact
from ansible_collections.gb10.serving.plugins.module_utils._engine_log_lines import split

LOGS = Path(__file__).resolve().parents[2] / "fixtures" / "engine_logs"
#: Put together here, so that no scanner takes it for a real one.
KEY = "Zq7" + "rT4uVw9xYb2"


@pytest.mark.parametrize(
    "line",
    [
        "server_args=ServerArgs(model_path='/m', api_key='{}', admin_api_key=None, port=8000)",
        "server_args={{'model_path': '/m', 'api_key': '{}', 'port': 8000}}",
        'args: {{"api_key": "{}", "port": 8000}}',
        "non-default args: {{'model_tag': '/m', 'api_key': ['{}'], 'port': 8000}}",
        "args: Namespace(model='/m', api_key=['{}', 'b'], ssl_keyfile_password='x{}')",
        "python3 -m sglang.launch_server --model-path /m --api-key {} --port 8000",
        "python3 -m sglang.launch_server --model-path /m --api-key={} --port 8000",
        "argv: ['--api-key', '{}', '--port', '8000']",
        "launch_server.py: error: unrecognized arguments: --api_key {}",
        "--admin-api-key {}",
        "ssl_keyfile_password='{}'",
        "HF_TOKEN={} vllm serve /m",
        "export HUGGING_FACE_HUB_TOKEN='{}'",
        "environ({{'VLLM_API_KEY': '{}', 'HOME': '/root'}})",
        "AWS_SECRET_ACCESS_KEY={}",
        "Authorization: Bearer {}",
        "headers={{'authorization': 'Bearer {}', 'accept': '*/*'}}",
        "curl -H 'x-api-key: {}'",
        "https://user:{}@hub.example.org/m",
        "GET /v1/models?api_key={} HTTP/1.1",
        '{{\\"api_key\\": \\"{}\\"}}',
        "GET https://h/v1?token={} HTTP/1.1",
        "https://h/x?key={}&port=8000",
        "https://s3/x?X-Amz-Signature={}&X-Amz-Credential={}",
        "token={}",
        '{{"token": "{}", "port": 8000}}',
        "HfApi(token='{}', port=1)",
        "hf-token: {}",
        "huggingface_token={}",
        "apiKey: '{}'",
        "ApiKey={}",
        "api_keys=['{}', '{}']",
        "api_key=('{}',)",
        "'api_key': {{'{}', 'b'}}, 'port': 8000",
        "api_key=b'{}', port=8000",
        "api_key=SecretStr('{}'), port=8000",
        'api_key=f"{}"',
        "api_key => {}",
        "api_key='a\\'{}', port=8000",
        '"api_key": "a\\"{}", "port": 8000',
        '{{\\\\"api_key\\\\": \\\\"{}\\\\"}}',
        "api_key='without an end {}",
        "api_key=[without an end {}",
        "api_key=abc\\{}",
        "[(b'authorization', b'Basic {}'), (b'host', b'x:8000')]",
        "proxy-authorization: Basic {}",
        "Cookie: session={}",
        "Set-Cookie: token={}",
        "--token {} --port 8000",
        "-e HF_TOKEN={}",
        "AZURE_STORAGE_KEY={}",
        "OPENAI_KEY={}",
        "DB_PASS={}",
        "CREDENTIALS={}",
        "passphrase={}",
        "PRIVATE_KEY={}",
        "http://{}@github.com/x",
        "Incorrect API key provided: {}",
        "\x1b[32mapi_key\x1b[0m=\x1b[1m'{}'\x1b[0m",
        "api_key\x1b[0m={}",
    ],
)
def test_written_as_engines_write_secrets(line: str) -> None:
    clean = _redact.text(line.replace("{}", KEY).replace("{{", "{").replace("}}", "}"))
    assert KEY not in clean and _redact.MASK in clean
    # What stands around it stays.
    assert clean.count("port") == line.count("port") and clean.count("8000") == line.count("8000")
    assert _redact.text(clean) == clean


@pytest.mark.parametrize(
    "key",
    [
        "hf_" + "a" * 34,
        "sk-" + "b" * 32,
        "nvapi-" + "c" * 40,
        "ghp_" + "d" * 36,
        "github_" + "pat_" + "e1" * 20,
        "glpat" + "-" + "f1" * 10,
        "AKIA" + "Q" * 16,
        "xoxb" + "-" + "1" * 20,
        "eyJ" + "h" * 20 + ".eyJ" + "z" * 20 + ".k-_k",
    ],
)
def test_keys_by_their_looks(key: str) -> None:
    assert _redact.text(f"401 for {key}: no") == f"401 for {_redact.MASK}: no"


@pytest.mark.parametrize(
    "line",
    [
        "server_args=ServerArgs(api_key=None, admin_api_key=None, hf_token='', max_total_tokens=4096)",
        "max_total_num_tokens=174720, chunked_prefill_size=8192",
        "GPU KV cache size: 174,720 tokens",
        "TOKENIZERS_PARALLELISM=false",
        "KeyError: 'layers.0.mlp.gate_up_proj.weight'",
        "wait timeout after 60000ms, keys: /default_pg/0//cpu//0/2",
        "unauthenticated requests to the HF Hub. Please set a HF_TOKEN to enable higher rate limits",
        "vllm: error: argument --api-key: expected at least one argument",
        "error: unrecognized arguments: --api-key --port 8000",
        "skip_tokenizer_init=False, tokenizer_path='/m', bos_token='<s>', eos_token_id=2",
        "tcp://10.9.0.1:29501",
        "max_tokens=500000000, num_tokens: 5, max_new_token=100000000",
        "token_type='abcdefgh', tokenizer='/models/tokenizer', eos_token=</s>, pad_token='<|endoftext|>'",
        "bos_token_id: 151643, MAX_TOKEN=5, NUM_TOKEN: 17, TOKEN: 5, VLLM_TOKEN=1",
        "KV cache size: 123 tokens",
        "FileNotFoundError: /root/.cache/huggingface/token: no such file",
        "log in with `hf auth login` or pass `token=<your_token>`",
        "Loading NVIDIA key token: rank 0",
        "ValueError: api_key: field required",
        "password: must be set",
        "API_KEY: missing",
        "SECRET: not found in environment",
        "Authorization: missing header, bearer of bad news, password authentication failed",
        "gb10_server_api_key: use ansible-vault",
        "usage: x [--api-key API_KEY [API_KEY ...]] [--hf-token [HF_TOKEN]] [--admin-api-key ADMIN_API_KEY]",
        "HF_TOKEN_PATH=/x/token PASSWORD_FILE=/x ssl_keyfile=/x KV_CACHE_KEY=abc",
        "secret_key_len=10 auth_token_type: bearer_thing",
        "https://user@host:8000/x git@github.com:vllm/x.git ssh://git@github.com:22/x",
        "hf_transferABCDEFGHIJKLMNOP sk-something-that-is-a-long-model-name",
    ],
)
def test_what_is_no_secret_stays(line: str) -> None:
    assert _redact.text(line, _redact.known(["", None, "abc"])) == line


def test_no_line_of_a_recorded_log_loses_anything() -> None:
    lines = {line.text for path in LOGS.glob("*.txt") for line in split(path.read_text(encoding="utf-8"))}
    changed = [line for line in lines if _redact.text(line) != line]
    assert changed == []


def test_known_secrets_wherever_they_stand() -> None:
    secrets = _redact.known([KEY, f"{KEY}-longer", "short"])
    assert _redact.text(f"a{KEY}b {KEY}-longer short", secrets) == f"a{_redact.MASK}b {_redact.MASK} short"
    assert _redact.of_env({"HF_TOKEN": KEY, "HF_HOME": "/x", "VLLM_API_KEY": "", "TOKENIZERS_PARALLELISM": "x"}) == [
        KEY
    ]


def test_known_secrets_as_others_write_them() -> None:
    secrets = _redact.known(['a"b\u00e4c d/e'])
    for written in ('a"b\u00e4c d/e', 'a"b\\xe4c d/e', 'a\\"b\\u00e4c d/e', 'a\\"b\u00e4c d/e', "a%22b%C3%A4c%20d%2Fe"):
        assert _redact.text(f"<{written}>", secrets) == f"<{_redact.MASK}>"
    assert _redact.text("<one\ntwo-lines>", _redact.known(["one\ntwo-lines"])) == f"<{_redact.MASK}>"


@pytest.mark.parametrize(
    "piece",
    [
        "-",
        "--a",
        "a=[",
        "api_key",
        "key:",
        "token: [",
        "sk-",
        "eyJ-",
        "\\",
        "x:",
        "://x",
        "a ",
        "\x1b[m",
        "a='",
        "?key=",
        "token\t",
        "hf_",
    ],
)
def test_a_long_line_takes_no_long_time(piece: str) -> None:
    for line in (f"key {piece * (80_000 // len(piece))} key", f"token={piece * (80_000 // len(piece))}"):
        begun = time.process_time()
        _redact.text(line)
        assert time.process_time() - begun < 2


@pytest.mark.parametrize("name", ["HF_TOKEN", "hf_token", "api_key", "apiKey", "OPENAI_KEY", "DB_PASS", "token"])
def test_values_by_the_name_they_have(name: str) -> None:
    mask = _redact.MASK
    assert _redact.whole({name: KEY, "port": 1, "x": {name: [KEY, KEY]}}) == {
        name: mask,
        "port": 1,
        "x": {name: [mask, mask]},
    }
    assert _redact.whole({name: None, "a": {name: True}, "b": {name: ""}}) == {
        name: None,
        "a": {name: True},
        "b": {name: ""},
    }
    assert _redact.whole({"HF_TOKEN": 123456, "eos_token": "</s>", "max_tokens": 5, "token": 7}) == {
        "HF_TOKEN": mask,
        "eos_token": "</s>",
        "max_tokens": 5,
        "token": 7,
    }


def test_documents() -> None:
    spec = {
        "endpoint": {"api_key": True},
        "engine": {"api_key": {"variable": "VLLM_API_KEY", "file": ""}, "args": ["--admin-api-key", KEY, "--x", "1"]},
        "ranks": [{"env": {"HF_TOKEN": KEY, "NCCL_DEBUG": "INFO"}, "port": 1, "evidence": [f"api_key='{KEY}'"]}],
    }
    clean = _redact.whole(spec)
    assert KEY not in str(clean)
    assert clean["endpoint"] == spec["endpoint"] and clean["engine"]["api_key"] == {
        "variable": "VLLM_API_KEY",
        "file": "",
    }
    assert clean["engine"]["args"] == ["--admin-api-key", _redact.MASK, "--x", "1"]
    assert clean["ranks"][0]["env"] == {"HF_TOKEN": _redact.MASK, "NCCL_DEBUG": "INFO"}
