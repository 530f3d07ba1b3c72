package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Models that would give wrong numbers are refused in the words of the configuration.
func TestUnsupportedModelsAreRefused(t *testing.T) {
	const size = `"num_hidden_layers":12,"hidden_size":768,"intermediate_size":3072,"num_attention_heads":12,"vocab_size":30522,"max_position_embeddings":512`
	for config, want := range map[string]string{
		`{"model_type":"bert","architectures":["BertModel"],` + size + `}`:                                              "an encoder only (model_type bert)",
		`{"model_type":"what","architectures":["WhatForMaskedLM"],` + size + `}`:                                        "does not apply",
		`{"model_type":"llama","is_causal":false,` + size + `}`:                                                         "encoder only",
		`{"model_type":"bart","is_encoder_decoder":true,` + size + `}`:                                                  "an encoder and a decoder",
		`{"model_type":"llama","num_hidden_layers":32,"num_attention_heads":33,"num_key_value_heads":5,"head_dim":128}`: "33 attention heads are not a multiple of 5 KV heads",
		`{"model_type":"llama","num_hidden_layers":-80,"num_attention_heads":32}`:                                       "num_hidden_layers is -80, which no model has",
		`{"model_type":"llama","num_hidden_layers":80,"hidden_size":"big","num_attention_heads":64}`:                    "hidden_size is a JSON string, not a whole number",
		`{"model_type":"llama","text_config":{"num_hidden_layers":80,"layer_types":"full","num_attention_heads":64}}`:   "layer_types is a JSON string, not a list",
		`[]`: "it is not a JSON object",
	} {
		path := filepath.Join(t.TempDir(), "config.json")
		if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := ask(t, exitError, "tune", "--model-config", path, "--gpu", "h100", "--avg-tokens", "300"); !strings.Contains(got, want) ||
			strings.Contains(got, "Go ") {
			t.Errorf("%s: %s, want %q", config, got, want)
		}
	}
}

// The error blames --overhead and not the weights if that is the reason.
func TestOverheadIsBlamedOnItself(t *testing.T) {
	says(t, ask(t, exitFinding, "tune", "--layers", "32", "--kv-heads", "8", "--head-dim", "128", "--params", "8", "--gpu", "h100",
		"--avg-tokens", "300", "--overhead", "100GiB"),
		"and --overhead 100.0 GiB leaves no room", "--overhead below 56.8 GiB")
}
