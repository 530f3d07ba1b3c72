package slacktest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
)

// The limits of Block Kit (https://docs.slack.dev/reference/block-kit). textCap is not documented:
// Slack refused messages with that much text.
const (
	maxBlocks = 50
	textCap   = 11000
)

// length counts characters as Slack does, in UTF-16 units.
func length(s string) int {
	n := 0
	for _, r := range s {
		if n++; r > 0xFFFF {
			n++
		}
	}
	return n
}

type object = map[string]any

// checkBlocks returns Slack's error code for a message's blocks and the reason, or "" if they are
// valid.
func checkBlocks(raw []byte) (code, why string) {
	var blocks []object
	if err := json.Unmarshal(raw, &blocks); err != nil {
		return "invalid_blocks_format", err.Error()
	}
	if len(blocks) == 0 || len(blocks) > maxBlocks {
		return "invalid_blocks", fmt.Sprintf("%d blocks", len(blocks))
	}
	ids := map[string]bool{}
	for i, b := range blocks {
		if err := checkBlock(b); err != nil {
			return "invalid_blocks", fmt.Sprintf("block %d (%v): %v", i, b["type"], err)
		}
		if id, _ := b["block_id"].(string); id != "" {
			if ids[id] || length(id) > 255 {
				return "invalid_blocks", fmt.Sprintf("block %d: block_id %q is too long or not unique", i, id)
			}
			ids[id] = true
		}
	}
	var all any
	if err := json.Unmarshal(raw, &all); err != nil {
		return "invalid_blocks_format", err.Error()
	}
	if n := total(all); n > textCap {
		return "msg_blocks_too_long", fmt.Sprintf("%d characters of text", n)
	}
	return "", ""
}

// total returns the length of all text in a message's blocks.
func total(v any) int {
	n := 0
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			n += total(x)
		}
	case object:
		for k, x := range v {
			if s, ok := x.(string); ok && (k == "text" || k == "label" || k == "title" || k == "name") {
				n += length(s)
			} else {
				n += total(x)
			}
		}
	}
	return n
}

func checkBlock(b object) error {
	switch b["type"] {
	case "header":
		return text(b["text"], 150, "plain_text")
	case "section":
		if b["text"] == nil {
			return errors.New("a section without text")
		}
		return text(b["text"], 3000, "plain_text", "mrkdwn")
	case "divider":
		return nil
	case "context":
		return each(b["elements"], 1, 10, func(e object) error { return text(e, 3000, "plain_text", "mrkdwn") })
	case "actions":
		seen := map[any]bool{}
		return each(b["elements"], 1, 25, func(e object) error {
			if seen[e["action_id"]] {
				return fmt.Errorf("action_id %v twice", e["action_id"])
			}
			seen[e["action_id"]] = true
			return button(e)
		})
	case "rich_text":
		return each(b["elements"], 1, 1000, rich)
	}
	return errors.New("unknown type")
}

func each(v any, least, most int, check func(object) error) error {
	list, _ := v.([]any)
	if len(list) < least || len(list) > most {
		return fmt.Errorf("%d elements", len(list))
	}
	for i, x := range list {
		o, ok := x.(object)
		if !ok {
			return fmt.Errorf("element %d is no object", i)
		}
		if err := check(o); err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
	}
	return nil
}

func text(v any, limit int, types ...string) error {
	o, _ := v.(object)
	for _, t := range types {
		if o["type"] == t {
			s, _ := o["text"].(string)
			return str(s, 1, limit)
		}
	}
	return fmt.Errorf("text of type %v", o["type"])
}

func str(s string, least, most int) error {
	if n := length(s); n < least || n > most {
		return fmt.Errorf("text of %d characters, %d to %d are allowed", n, least, most)
	}
	return nil
}

func button(e object) error {
	if e["type"] != "button" {
		return fmt.Errorf("unknown element %v", e["type"])
	}
	value, _ := e["value"].(string)
	id, _ := e["action_id"].(string)
	link, _ := e["url"].(string)
	style, _ := e["style"].(string)
	errs := []error{text(e["text"], 75, "plain_text"), str(value, 0, 2000), str(id, 1, 255), str(link, 0, 3000)}
	if u, err := url.Parse(link); link != "" && (err != nil || u.Host == "") {
		errs = append(errs, fmt.Errorf("url %q", link))
	}
	if style != "" && style != "primary" && style != "danger" {
		errs = append(errs, fmt.Errorf("style %q", style))
	}
	if c, ok := e["confirm"].(object); ok {
		errs = append(errs, text(c["title"], 100, "plain_text"), text(c["text"], 300, "plain_text", "mrkdwn"),
			text(c["confirm"], 30, "plain_text"), text(c["deny"], 30, "plain_text"))
	}
	return errors.Join(errs...)
}

func rich(e object) error {
	switch e["type"] {
	case "rich_text_list":
		if s := e["style"]; s != "bullet" && s != "ordered" {
			return fmt.Errorf("list style %v", s)
		}
		return each(e["elements"], 1, 1000, func(o object) error {
			if o["type"] != "rich_text_section" {
				return fmt.Errorf("a list holds sections, not %v", o["type"])
			}
			return rich(o)
		})
	case "rich_text_section", "rich_text_preformatted", "rich_text_quote":
		return each(e["elements"], 1, 1000, func(o object) error {
			s, _ := o["text"].(string)
			switch o["type"] {
			case "text":
				return str(s, 1, 4000)
			case "link":
				link, _ := o["url"].(string)
				if u, err := url.Parse(link); err != nil || u.Host == "" {
					return fmt.Errorf("url %q", link)
				}
				return str(link, 1, 3000)
			}
			// Mentions, broadcasts and emoji are valid in Slack, but this bot sends none.
			return fmt.Errorf("unexpected element %v", o["type"])
		})
	}
	return fmt.Errorf("unknown element %v", e["type"])
}
