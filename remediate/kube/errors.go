package kube

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"paramedic/remediate/cluster"
)

// twoBudgets is part of the API server's answer (with 500) for a pod that two disruption budgets
// cover.
const twoBudgets = "more than one PodDisruptionBudget"

// explain maps the API server's answers to the errors of package cluster. Only an answer of the
// server proves that nothing was written. A timeout or a broken connection stays as it is.
func explain(err error) error {
	if err == nil {
		return nil
	}
	wrap := func(sentinel error) error { return fmt.Errorf("%w: %w", sentinel, err) }
	switch {
	case apierrors.IsNotFound(err):
		return wrap(cluster.ErrNotFound)
	case apierrors.IsConflict(err):
		return wrap(cluster.ErrConflict)
	case apierrors.IsInvalid(err) && fieldErrors(err):
		return wrap(cluster.ErrRefused)
	case apierrors.IsInvalid(err):
		return wrap(cluster.ErrConflict) // a failed test of a JSON Patch is a 422 that names no field
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return wrap(cluster.ErrForbidden)
	case apierrors.HasStatusCause(err, "DisruptionBudget"),
		apierrors.IsTooManyRequests(err) && strings.Contains(err.Error(), "disruption budget"):
		return fmt.Errorf("%w: %s", cluster.ErrBlocked, detail(err))
	case strings.Contains(err.Error(), twoBudgets), apierrors.IsBadRequest(err), apierrors.IsMethodNotSupported(err),
		apierrors.IsRequestEntityTooLargeError(err), apierrors.ReasonForError(err) == "UnsupportedMediaType":
		return wrap(cluster.ErrRefused)
	}
	return err
}

// fieldErrors reports whether validation named a field.
func fieldErrors(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	for _, c := range status.Status().Details.Causes {
		if c.Field != "" {
			return true
		}
	}
	return false
}

// detail returns why a disruption budget refuses.
func detail(err error) string {
	if c, ok := apierrors.StatusCause(err, "DisruptionBudget"); ok && c.Message != "" {
		return c.Message
	}
	return err.Error()
}
