from __future__ import annotations

import base64
import datetime as dt
import ipaddress
import json
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.client.mlflow.fake_mlflow import FakeMlflow, fake_mlflow
from ytf.client.mlflow import server as mlflow_server
from ytf.client.mlflow.server import MlflowError, MlflowServer


@pytest.fixture
def fake() -> Iterator[FakeMlflow]:
    with fake_mlflow() as started:
        yield started


def test_a_run_from_its_beginning_to_its_end(fake: FakeMlflow) -> None:
    server = MlflowServer(fake.url + "/", {})
    run = server.create_run("7", "näme", {"a": "b"})
    assert (run.id, run.experiment, run.is_stored_by_server) == ("run0", "7", True)
    server.log(run.id, params={"p": "x" * 9999}, metrics={"m": 1.5}, tags={"t": "y"})
    server.store_text(run, "logs/a b.txt", "tëxt\n")
    server.end_run(run.id, "FAILED")
    told = fake.runs["run0"]
    assert (told["name"], told["experiment"], told["status"]) == ("näme", "7", "FAILED")
    assert told["tags"] == {"a": "b", "t": "y"}
    assert told["metrics"] == {"m": 1.5}
    assert len(told["params"]["p"]) == 250
    assert fake.artifacts == {"0/run0/artifacts/logs/a%20b.txt": "tëxt\n"}
    assert server.get_run("run0").id == "run0"


def test_the_experiment_is_that_of_mlflows_variables(fake: FakeMlflow) -> None:
    server = MlflowServer(fake.url, {})
    assert server.experiment({}) == "0"
    assert server.experiment({"MLFLOW_EXPERIMENT_ID": "5"}) == "5"
    assert server.experiment({"MLFLOW_EXPERIMENT_NAME": "new one"}) == "e0"
    assert server.experiment({"MLFLOW_EXPERIMENT_NAME": "new one"}) == "e0"
    assert fake.experiments == {"new one": "e0"}


@pytest.mark.parametrize(
    ("user", "variables", "expected"),
    [
        ("", {}, None),
        ("", {"MLFLOW_TRACKING_TOKEN": "t"}, "Bearer t"),
        ("", {"MLFLOW_TRACKING_USERNAME": "u", "MLFLOW_TRACKING_PASSWORD": "p"}, "Basic u:p"),
        ("u:p%40@", {"MLFLOW_TRACKING_TOKEN": "t"}, "Basic u:p@"),
    ],
)
def test_access(
    fake: FakeMlflow, user: str, variables: dict[str, str], expected: str | None
) -> None:
    server = MlflowServer(fake.url.replace("//", f"//{user}"), variables)
    server.create_run("0", "n", {})
    assert server.url == fake.url
    given = fake.headers[0].get("Authorization")
    if given is not None and given.startswith("Basic "):
        given = "Basic " + base64.b64decode(given.removeprefix("Basic ")).decode()
    assert given == expected


def test_a_password_goes_nowhere_else(fake: FakeMlflow) -> None:
    with fake_mlflow() as other:
        fake.redirect_to = other.url
        with pytest.raises(MlflowError, match="HTTP 307"):
            MlflowServer(fake.url.replace("//", "//u:p@"), {}).get_run("run0")
        assert not other.headers


def _self_signed() -> bytes:
    """A key and a certificate for 127.0.0.1, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "mlflow")])
    now = dt.datetime.now(dt.timezone.utc)
    day = dt.timedelta(days=1)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now - day, now + day)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    named = builder.add_extension(x509.SubjectAlternativeName([address]), critical=False)
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private + named.sign(key, hashes.SHA256()).public_bytes(pem)


def test_certificates(tmp_path: Path) -> None:
    cert = tmp_path / "cert.pem"
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    cert.write_bytes(_self_signed())
    tls.load_cert_chain(cert)
    with fake_mlflow(tls) as fake:
        with pytest.raises(MlflowError, match="certificate verify failed"):
            MlflowServer(fake.url, {}).create_run("0", "n", {})
        for trusting in (
            {"MLFLOW_TRACKING_SERVER_CERT_PATH": str(cert)},
            {"MLFLOW_TRACKING_INSECURE_TLS": "true"},
        ):
            MlflowServer(fake.url, trusting).create_run("0", "n", {})
    assert len(fake.runs) == 2


def test_what_fails_for_a_moment_is_repeated_if_it_may_be(
    fake: FakeMlflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mlflow_server, "_RETRY_S", 0.01)
    server = MlflowServer(fake.url, {}, retry_s=60)
    run = server.create_run("0", "n", {})
    fake.answers = [(503, b"busy"), (500, b"{}")]
    server.end_run(run.id, "FINISHED")
    assert fake.runs[run.id]["status"] == "FINISHED"
    fake.answers = [(503, b"busy")]
    with pytest.raises(MlflowError, match="HTTP 503 Service Unavailable"):
        server.create_run("0", "twice?", {})
    assert len(fake.runs) == 1


@pytest.mark.parametrize(
    ("code", "data", "expected"),
    [
        (400, b'{"message": "no such thing"}', "HTTP 400: no such thing"),
        (403, b"<html>", "HTTP 403 Forbidden"),
        (200, b"<html>", "Expecting value"),
        (200, b"[]", "none of MLflow's"),
        (200, b'{"run": {"info": {}}}', "none of MLflow's"),
        (200, json.dumps({"run": "x" * (5 << 20)}).encode(), "too long"),
    ],
)
def test_whatever_a_server_answers_is_an_error_of_one_kind(
    fake: FakeMlflow, code: int, data: bytes, expected: str
) -> None:
    fake.answers = [(code, data)]
    with pytest.raises(MlflowError, match=expected):
        MlflowServer(fake.url, {}).create_run("0", "n", {})


def test_only_artifacts_that_the_server_stores_are_stored(fake: FakeMlflow) -> None:
    for root, expected in (
        ("mlflow-artifacts:/1", True),
        ("mlflow-artifacts://elsewhere:80/1", False),
        ("hdfs://nn/mlflow", False),
        ("/shared/mlruns", False),
    ):
        fake.artifact_root = root
        run = MlflowServer(fake.url, {}).create_run("0", "n", {})
        assert run.is_stored_by_server is expected
