package rest

import (
	"net/http"
	"strconv"

	"millrace/runtime"
)

func (s *Server) tasks(r *http.Request) (any, error) {
	name, err := Param(r, "name")
	if err != nil {
		return nil, err
	}
	tasks, err := s.herder.Tasks(r.Context(), name)
	if tasks == nil {
		tasks = []runtime.TaskInfo{}
	}
	return tasks, err
}

// taskID is the task that the path names. A number that is none is a path that does
// not exist, as in Connect.
func taskID(r *http.Request) (runtime.TaskID, error) {
	name, err := Param(r, "name")
	if err != nil {
		return runtime.TaskID{}, err
	}
	text, err := Param(r, "task")
	if err != nil {
		return runtime.TaskID{}, err
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return runtime.TaskID{}, httpError(http.StatusNotFound)
	}
	return runtime.TaskID{Connector: name, Task: int(n)}, nil
}

func (s *Server) restartTask(r *http.Request) (any, error) {
	id, err := taskID(r)
	if err != nil {
		return nil, err
	}
	return answer{status: http.StatusNoContent}, s.herder.RestartTask(r.Context(), id)
}
