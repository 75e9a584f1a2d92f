/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_MCP_RPC_H
#define VIAL_MCP_RPC_H

/* JSON-RPC 2.0 as MCP uses it: what a message is, and how answers are made. */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Codes of JSON-RPC, and those that MCP adds. */
enum rpc_code {
    RPC_PARSE = -32700,
    RPC_INVALID = -32600,
    RPC_NO_METHOD = -32601,
    RPC_PARAMS = -32602,
    RPC_INTERNAL = -32603,
    RPC_NO_RESOURCE = -32002, /* until 2025-11-25; afterwards RPC_PARAMS */
    RPC_HEADER = -32020,      /* an HTTP header does not say what the body says */
    RPC_CAPABILITY = -32021,  /* the client lacks a capability */
    RPC_VERSION = -32022,     /* a protocol version that we do not speak */
};

/* Why a request was not answered with a result. */
struct rpc_error {
    enum rpc_code code;
    unsigned http; /* status over HTTP; 0: 200 */
    char message[256];
    json_t *data; /* or NULL; owned */
};

/* Fills ERR and returns -1. DATA is taken; it may be NULL. */
__attribute__((format(printf, 5, 6))) int rpc_fail(struct rpc_error *err,
                                                   enum rpc_code code, unsigned http,
                                                   json_t *data, const char *format,
                                                   ...);
void rpc_error_done(struct rpc_error *err);
#define auto_rpc_error __attribute__((cleanup(rpc_error_done)))

enum rpc_kind { RPC_REQUEST, RPC_NOTIFICATION, RPC_RESPONSE };

/* One message that came. Everything is borrowed from `whole`. */
struct rpc_message {
    enum rpc_kind kind;
    json_t *whole;
    json_t *id;         /* a text or an integer; NULL for notifications */
    const char *method; /* NULL for responses */
    json_t *params;     /* an object, never NULL but for responses */
};

/* Reads one message. When it is none, *ID may be set for the answer; the caller
 * owns it. */
int rpc_read(const char *text, size_t len, struct rpc_message *out, json_t **id,
             struct rpc_error *err);
void rpc_message_done(struct rpc_message *message);
#define auto_rpc_message __attribute__((cleanup(rpc_message_done)))

/* These give whole messages; NULL without memory. ID is borrowed and may be NULL. */
json_t *rpc_result(const json_t *id, json_t *result); /* takes RESULT */
json_t *rpc_error(const json_t *id, const struct rpc_error *err);
json_t *rpc_notification(const char *method, json_t *params); /* takes PARAMS */

/* The text at KEY, if it is one without a NUL in it; else NULL. */
const char *rpc_text(const json_t *object, const char *key);

#endif
