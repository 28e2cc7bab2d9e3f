#!/usr/bin/env python3
"""Calls a method of a gRPC server with JSON, as grpcurl does, for machines that have no grpcurl.

    json_call.py HOST:PORT widelane.v1.Scoring/ListModels
    json_call.py HOST:PORT widelane.v1.Scoring/Score '{"model": "m", "rows": {"plainIndptr": [0, 1], "plainIndices": [2]}}'
    json_call.py HOST:PORT list

Knows nothing of the service: messages are built from the descriptors that the server's reflection service
(grpc.reflection.v1alpha) hands out. Needs the Python packages grpcio and protobuf, of any release. Exit status: 0, 1 when the
call failed (code and message on stderr), 2 for a wrong command line.
"""

import argparse
import sys

try:
    import grpc
    from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
except ImportError as error:
    sys.exit(f"json_call: {error}; install python3-grpcio and python3-protobuf, and use the Python they belong to")

MAX_MESSAGE_BYTES = 256 << 20
REFLECTION = "grpc.reflection.v1alpha"


def add_reflection(pool):
    """Adds the few messages of the reflection protocol that are used here."""
    file = descriptor_pb2.FileDescriptorProto(name="json_call/reflection.proto", package=REFLECTION, syntax="proto3")
    field = descriptor_pb2.FieldDescriptorProto

    def message(name, *fields):
        descriptor = file.message_type.add(name=name)
        for field_name, number, kind, repeated in fields:
            added = descriptor.field.add(name=field_name, number=number)
            added.label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
            if isinstance(kind, str):
                added.type = field.TYPE_MESSAGE
                added.type_name = f".{REFLECTION}.{kind}"
            else:
                added.type = kind

    message("Request", ("file_containing_symbol", 4, field.TYPE_STRING, False),
            ("list_services", 7, field.TYPE_STRING, False))
    message("Files", ("file_descriptor_proto", 1, field.TYPE_BYTES, True))
    message("Service", ("name", 1, field.TYPE_STRING, False))
    message("Services", ("service", 1, "Service", True))
    message("Error", ("error_message", 2, field.TYPE_STRING, False))
    message("Response", ("file_descriptor_response", 4, "Files", False),
            ("list_services_response", 6, "Services", False), ("error_response", 7, "Error", False))
    pool.Add(file)


def message_class(pool, name):
    """The class of the message type `name`; older and newer releases of protobuf say it in different ways."""
    descriptor = pool.FindMessageTypeByName(name)
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    return message_factory.MessageFactory(pool).GetPrototype(descriptor)


def reflect(channel, pool, timeout, **query):
    """One question to the reflection service."""
    call = channel.stream_stream(
        f"/{REFLECTION}.ServerReflection/ServerReflectionInfo",
        request_serializer=lambda request: request.SerializeToString(),
        response_deserializer=message_class(pool, f"{REFLECTION}.Response").FromString)
    request = message_class(pool, f"{REFLECTION}.Request")(**query)
    response = next(call(iter([request]), timeout=timeout))
    if response.HasField("error_response"):
        raise LookupError(response.error_response.error_message)
    return response


def find_method(channel, pool, service, method, timeout):
    """Fills `pool` with what the server says of `service` and returns the descriptor of its method."""
    files = {}
    for data in reflect(channel, pool, timeout, file_containing_symbol=service).file_descriptor_response.file_descriptor_proto:
        file = descriptor_pb2.FileDescriptorProto.FromString(data)
        files[file.name] = file

    def add(name):
        file = files.pop(name, None)
        if file is not None:
            for dependency in file.dependency:
                add(dependency)
            pool.Add(file)

    for name in list(files):
        add(name)
    descriptor = pool.FindServiceByName(service).methods_by_name.get(method)
    if descriptor is None:
        raise LookupError(f"{service} has no method {method}")
    return descriptor


def make_pool():
    pool = descriptor_pool.DescriptorPool()
    # pool.Add went away in newer releases and AddSerializedFile is in all.
    if not hasattr(pool, "Add"):
        pool.Add = lambda file: pool.AddSerializedFile(file.SerializeToString())
    add_reflection(pool)
    return pool


def list_services(channel, pool, timeout):
    response = reflect(channel, pool, timeout, list_services="*")
    for service in response.list_services_response.service:
        print(service.name)


def call_method(channel, pool, target, text, timeout):
    service, _, method = target.rpartition("/")
    descriptor = find_method(channel, pool, service, method, timeout)
    request = json_format.Parse(text, message_class(pool, descriptor.input_type.full_name)(), descriptor_pool=pool)
    call = channel.unary_unary(
        f"/{service}/{method}",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=message_class(pool, descriptor.output_type.full_name).FromString)
    print(json_format.MessageToJson(call(request, timeout=timeout), descriptor_pool=pool))


def main():
    parser = argparse.ArgumentParser(description="Calls a method of a gRPC server with JSON, through its reflection service.")
    parser.add_argument("address", help="HOST:PORT")
    parser.add_argument("method", help="PACKAGE.SERVICE/METHOD, or 'list' for the names of the services")
    parser.add_argument("json", nargs="?", default="{}", help="the request; - for stdin")
    parser.add_argument("--timeout", type=float, default=30, help="seconds (default 30)")
    options = parser.parse_args()
    if options.method != "list" and "/" not in options.method:
        parser.error("the method is PACKAGE.SERVICE/METHOD")
    text = sys.stdin.read() if options.json == "-" else options.json
    limits = [("grpc.max_receive_message_length", MAX_MESSAGE_BYTES), ("grpc.max_send_message_length", MAX_MESSAGE_BYTES)]
    with grpc.insecure_channel(options.address, options=limits) as channel:
        try:
            if options.method == "list":
                list_services(channel, make_pool(), options.timeout)
            else:
                call_method(channel, make_pool(), options.method, text, options.timeout)
        except grpc.RpcError as error:
            print(f"{error.code().name}: {error.details()}", file=sys.stderr)
            return 1
        except (LookupError, KeyError, json_format.ParseError) as error:
            print(f"json_call: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
