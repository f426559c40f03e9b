# A Python with torchft beside the torch that tests compare with, for the dev script:
# `./dev bench cluster` trains with it beside Troupe. torchft tells OpenTelemetry of its
# errors, and cannot be imported without it.

torchft_folder=torchft-0.2.0

downloads+='
TORCHFT torchft-0.2.0-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl 61be4719c9a96e208fe09f2bf194b51327cd5958278990926e7dea060fe34af9 pip:torchft==0.2.0
CERTIFI certifi-2026.10.19.post1-py3-none-any.whl 1324c476b4811eff41a8bc2122cd0bbd4d9c7234c725446d99ab1612b3a7fdd2 pip:certifi==2026.10.19.post1
CHARSET_NORMALIZER charset_normalizer-3.5.3-cp311-cp311-manylinux1_x86_64.manylinux_2_28_x86_64.manylinux_2_5_x86_64.whl 2a6f937e0b70133d1f826d0a253331b6fe1a4c874808cc12e16f2fb8177042f4 pip:charset-normalizer==3.5.3
GOOGLEAPIS_COMMON_PROTOS googleapis_common_protos-1.76.0-py3-none-any.whl 59e13344a9f3651aa201a03e2bee815a3bf43a4baf1f9ff8a9b62a840ce25fac pip:googleapis-common-protos==1.76.0
IDNA idna-3.20-py3-none-any.whl ab7ae7122974553370f0bdb919e1a960b2cd1bc1ef0276416d896db81c14582c pip:idna==3.20
OPENTELEMETRY_API opentelemetry_api-1.45.2-py3-none-any.whl 2cbd737377e710ee740d261c94e93fa0f08e6d037c18f17513cc0a2d94479a34 pip:opentelemetry-api==1.45.2
OPENTELEMETRY_EXPORTER_HTTP_TRANSPORT opentelemetry_exporter_http_transport-0.66b2-py3-none-any.whl fd5f5b490c099acda1cd7b909d5e8981436bf18cc8c6098d302d114c271720e9 pip:opentelemetry-exporter-http-transport==0.66b2
OPENTELEMETRY_EXPORTER_OTLP_COMMON opentelemetry_exporter_otlp_common-0.66b2-py3-none-any.whl ace86efb75489f925f1ef809856ae5f0c7db534e4afdc624530222228b1236a5 pip:opentelemetry-exporter-otlp-common==0.66b2
OPENTELEMETRY_EXPORTER_OTLP_PROTO_COMMON opentelemetry_exporter_otlp_proto_common-1.45.2-py3-none-any.whl af483b24217028892f017096731b794b196b785025d2e6808874720fd0b05a80 pip:opentelemetry-exporter-otlp-proto-common==1.45.2
OPENTELEMETRY_EXPORTER_OTLP_PROTO_HTTP opentelemetry_exporter_otlp_proto_http-1.45.2-py3-none-any.whl 6e4d025138829d0ee57946930c2ccad6491ad4d92a958e9c7eea69278fe60cfc pip:opentelemetry-exporter-otlp-proto-http==1.45.2
OPENTELEMETRY_PROTO opentelemetry_proto-1.45.2-py3-none-any.whl 03a7ca1b43f89fd5b965d5975902bb2515c0c86e2428b456836e9a6149c6235a pip:opentelemetry-proto==1.45.2
OPENTELEMETRY_SDK opentelemetry_sdk-1.45.2-py3-none-any.whl ff974ea70ee4f1d51e2ec152db37c2b626c7bf82bb3f7d86114fd8704e7199c6 pip:opentelemetry-sdk==1.45.2
OPENTELEMETRY_SEMANTIC_CONVENTIONS opentelemetry_semantic_conventions-0.66b2-py3-none-any.whl 4cbe61e5f9275d57ab31708446e7938ef4291ebbe6a7fca6f7a629c5acae87d8 pip:opentelemetry-semantic-conventions==0.66b2
PROTOBUF protobuf-7.36.2-cp310-abi3-manylinux2014_x86_64.whl 89f23aa53c24553a2416fd4fd1ec06f74fa42b14b546d8883128813f775bbfd2 pip:protobuf==7.36.2
REQUESTS requests-2.34.2-py3-none-any.whl 2a0d60c172f83ac6ab31e4554906c0f3b3588d37b5cb939b1c061f4907e278e0 pip:requests==2.34.2
URLLIB3 urllib3-2.8.0-py3-none-any.whl 0cf3cae568d36aa9576b28dfb35f11328f1cb974ca7647d9475ebb86c75ac6e3 pip:urllib3==2.8.0
'

torchft_only=(TORCHFT CERTIFI CHARSET_NORMALIZER GOOGLEAPIS_COMMON_PROTOS IDNA OPENTELEMETRY_API
  OPENTELEMETRY_EXPORTER_HTTP_TRANSPORT OPENTELEMETRY_EXPORTER_OTLP_COMMON
  OPENTELEMETRY_EXPORTER_OTLP_PROTO_COMMON OPENTELEMETRY_EXPORTER_OTLP_PROTO_HTTP
  OPENTELEMETRY_PROTO OPENTELEMETRY_SDK OPENTELEMETRY_SEMANTIC_CONVENTIONS PROTOBUF
  REQUESTS URLLIB3)

unpack_torchft() { # WORK FOLDER
  local work=$1 python site name
  python=$(python_for_parity)
  "$python" -m venv --without-pip "$work"
  site=$work/lib/python$torch_python/site-packages
  # With what the wheels say of themselves: OpenTelemetry finds its parts by that.
  for name in "${torchft_only[@]}"; do
    unzip -q -o "$(fetch "$work" "$name")" -d "$site"
  done
  echo "$cache/$parity_folder/lib/python$torch_python/site-packages" >"$site/torch.pth"
  "$work/bin/python" -c 'import torchft'
}

# A Python for the bench; with torchft if it can be had. Nothing if there is none with torch.
python_for_clusters() {
  if [[ -z $(python_for_parity) ]]; then return; fi
  # In a process of its own, which ends at its first error.
  if ./dev setup --torchft >&2; then
    echo "$cache/$torchft_folder/bin/python"
  else
    say "torchft cannot be installed here" >&2
    ./dev setup --parity >&2 && echo "$cache/$parity_folder/bin/python"
  fi
}
